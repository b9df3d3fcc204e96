"""Completion of the command line in bash and zsh, generated from the tables of commands and actions."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping

from paimon_spark.calls.refusals import REFUSED
from paimon_spark.cli.actions.arguments import FORMATS
from paimon_spark.cli.actions.derived import derived_actions
from paimon_spark.cli.actions.help import frame_of
from paimon_spark.cli.actions.table import ACTIONS, MERGE_ACTIONS, Action

_ORDERS = ("none", "order", "zorder", "hilbert")
_VALUES: Mapping[str, Iterable[str]] = {
    "--format": FORMATS,
    "--compact_strategy": ("full", "minor"),
    "--order_strategy": _ORDERS,
    "--mode": ("combined", "divided"),
    "--merge_actions": MERGE_ACTIONS,
    "--expire_strategy": ("values-time", "update-time"),
    "--clone_from": ("paimon",),
}
"""The values of options that have a choice."""
_DIRECTORIES = ("--path", "--warehouse", "--target_warehouse")

_BASH = """\
# Completion of paimon-spark in bash: eval "$(paimon-spark completion bash)"
_paimon_spark() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} choices=""
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "{names}" -- "$word") $(compgen -W "{names}" -- "${{word//-/_}}"))
        COMPREPLY=($(printf '%s\\n' "${{COMPREPLY[@]}}" | sort -u))
        return
    fi
    [[ $before == --* ]] && before=--$(tr - _ <<< "${{before#--}}")
    case $before in
{values}
        {directories}) COMPREPLY=($(compgen -d -- "$word")); return ;;
    esac
    case ${{COMP_WORDS[1]//-/_}} in
{options}
    esac
    [[ $choices == *_* && $word == --* ]] && word=--$(tr - _ <<< "${{word#--}}")
    COMPREPLY=($(compgen -W "$choices" -- "$word"))
}}
complete -o default -F _paimon_spark paimon-spark
"""

_ZSH = """\
#compdef paimon-spark
# Completion of paimon-spark in zsh: source <(paimon-spark completion zsh), behind compinit
_paimon_spark() {{
    local -a choices
    if ((CURRENT == 2)); then
        compadd -M 'm:-=_ m:_=-' -- {names}
        return
    fi
    case ${{words[CURRENT - 1]}} in
{values}
        {directories}) _files -/; return ;;
    esac
    case ${{words[2]//-/_}} in
{options}
    esac
    if ((${{#choices}})); then
        compadd -M 'm:-=_' -- $choices
    else
        _files
    fi
}}
compdef _paimon_spark paimon-spark
"""


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the script of a shell; `parser` has the commands that are no actions."""
    commands = _commands(parser)
    actions = {name: a for name, a in {**ACTIONS, **derived_actions()}.items() if name not in REFUSED}
    options = {name.replace("-", "_"): flags for name, flags in commands.items()}
    options |= {name: _flags(action) for name, action in actions.items()}
    is_bash = shell == "bash"
    return (_BASH if is_bash else _ZSH).format(
        names=" ".join(sorted([*commands, *actions])),
        values=_cases(_VALUES, _reply if is_bash else _added),
        directories="|".join(_DIRECTORIES),
        options=_cases(options, _chosen if is_bash else _array),
    )


def _commands(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Return the commands with their options."""
    subparsers = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {
        name: [flag for a in command._actions for flag in a.option_strings if flag.startswith("--")]
        for name, command in subparsers.choices.items()
    }


def _flags(action: Action) -> list[str]:
    return [f"--{o.name}" for o in (*action.options, *frame_of(action)) if not o.refused]


def _cases(choices: Mapping[str, Iterable[str]], line: Callable[[str], str]) -> str:
    return "\n".join(f"        {name}) {line(' '.join(values))} ;;" for name, values in choices.items())


def _reply(values: str) -> str:
    return f'COMPREPLY=($(compgen -W "{values}" -- "$word")); return'


def _added(values: str) -> str:
    return f"compadd -- {values}; return"


def _chosen(values: str) -> str:
    return f'choices="{values}"'


def _array(values: str) -> str:
    return f"choices=({values})"
