"""Random bitmaps and sketches: both sides merge Paimon's, and Paimon reads what is merged here."""

from __future__ import annotations

import random

import pytest

from tests.peers.aggregate_bytes import CASES, ask, merged, recorded
from tests.peers.java_peer import bundle_jar
from tests.unit.core.merge.test_serialized_unions import values_of
from tests.variants import every

ROUNDS = 150
KINDS = {
    "rbm32": ("rbm32", "rbm32:plain"),
    "rbm64": ("rbm64", "rbm64:plain"),
    "hll_sketch": tuple(f"hll_sketch:{k}:{t}" for k in (4, 8, 12) for t in ("HLL_4", "HLL_6", "HLL_8", "HLL_8:update")),
    "theta_sketch": tuple(f"theta_sketch:{k}{u}" for k in (4, 8, 12, 14) for u in ("", "", ":update")),
}


def drawn_values(rng: random.Random, bits: int) -> str:
    """Return some numbers and ranges: dense, spread over neighbouring containers, and anywhere."""
    parts = []
    for _ in range(rng.randint(1, 4)):
        reach = 1 << (bits - 1)
        start = rng.choice((0, 1 << 16, 1 << 20, -5, -reach, rng.randrange(-reach, reach - (1 << 23))))
        match rng.randrange(4):
            case 0:
                parts += [str(rng.randrange(-reach, reach)) for _ in range(rng.randint(1, 40))]
            case 1:
                parts.append(f"{start}..{start + rng.choice((1, 30, 3000, 80_000))}")
            case 2:
                parts.append(f"{start}..{start + rng.randint(1, 80_000)}..{rng.choice((2, 3, 17, 99))}")
            case _:
                parts.append(f"{start}..{start + rng.randint(1, 60) * 65_536}..65536")
    return ",".join(parts)


def drawn_case(rng: random.Random, function: str) -> list[str]:
    """Return the inputs of one key; HLL sketches are of one size, as those of a column are."""
    kinds = [rng.choice(KINDS[function]) for _ in range(rng.randint(2, 4))]
    if function == "hll_sketch":
        size = kinds[0].split(":")[1]
        kinds = [":".join((function, size, *kind.split(":")[2:])) for kind in kinds]
    return [f"{kind} {drawn_values(rng, 64 if function == 'rbm64' else 32)}" for kind in kinds]


@pytest.mark.peer
@pytest.mark.parametrize("function", every(2, KINDS))
def test_both_sides_merge_random_values_alike(function: str) -> None:
    rng = random.Random(function)
    theirs = merged(bundle_jar(), [drawn_case(rng, function) for _ in range(ROUNDS)])
    ours = values_of(function, *([bytes.fromhex(value) for value in inputs] for inputs, _ in theirs))
    texts = [value.hex() for value in ours if value is not None]
    answers = ask(bundle_jar(), [f"same {function} {a} {b}" for a, (_, b) in zip(texts, theirs, strict=True)])
    if function.startswith("rbm"):
        assert set(answers) == {"true"}
    else:
        assert [a.split(" ")[0] for a in answers] == [a.split(" ")[1] for a in answers]
    different = sum(a != b for a, (_, b) in zip(texts, theirs, strict=True))
    assert different <= (0 if function == "theta_sketch" else ROUNDS // 10)


@pytest.mark.peer
def test_the_release_builds_the_recorded_bytes() -> None:
    found = merged(bundle_jar(), list(CASES.values()))
    again = {name: ([*map(bytes.fromhex, i)], bytes.fromhex(out)) for name, (i, out) in zip(CASES, found, strict=True)}
    assert again == {name: ([*case.inputs], case.merged) for name, case in recorded().items()}
