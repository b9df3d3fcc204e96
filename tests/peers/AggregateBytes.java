// Builds, merges and compares serialized bitmaps and sketches with the aggregate functions of Apache Paimon.
//
//   java -cp JAR AggregateBytes < commands
//
// A line of standard input is one command, its words separated by blanks; one line answers it. Bytes are hexadecimal.
//
//   of KIND VALUES      the bytes of a bitmap or sketch; VALUES are numbers and ranges FIRST..LAST..STEP, by commas
//   merge FUNCTION B…   the bytes that the aggregate function makes of inputs in this order
//   same FUNCTION A B   for bitmaps whether they are equal; for sketches both estimates
//
// KIND is a function; `hll_sketch:LG_K:TYPE` and `theta_sketch:LG_K` say the size, a further `:update` keeps their
// updatable layout, and `rbm32:plain` and `rbm64:plain` leave out run containers.
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.util.HexFormat;
import java.util.function.LongConsumer;
import org.apache.paimon.mergetree.compact.aggregate.FieldAggregator;
import org.apache.paimon.mergetree.compact.aggregate.FieldHllSketchAgg;
import org.apache.paimon.mergetree.compact.aggregate.FieldRoaringBitmap32Agg;
import org.apache.paimon.mergetree.compact.aggregate.FieldRoaringBitmap64Agg;
import org.apache.paimon.mergetree.compact.aggregate.FieldThetaSketchAgg;
import org.apache.paimon.shade.org.apache.datasketches.hll.HllSketch;
import org.apache.paimon.shade.org.apache.datasketches.hll.TgtHllType;
import org.apache.paimon.shade.org.apache.datasketches.memory.Memory;
import org.apache.paimon.shade.org.apache.datasketches.theta.Sketch;
import org.apache.paimon.shade.org.apache.datasketches.theta.UpdateSketch;
import org.apache.paimon.shade.org.roaringbitmap.RoaringBitmap;
import org.apache.paimon.shade.org.roaringbitmap.longlong.Roaring64Bitmap;
import org.apache.paimon.types.VarBinaryType;

public class AggregateBytes {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(line.split(" ")));
        }
    }

    private static String answer(String[] words) {
        try {
            switch (words[0]) {
                case "of":
                    return hex(build(words[1].split(":"), words.length > 2 ? words[2] : ""));
                case "merge":
                    FieldAggregator function = function(words[1]);
                    Object merged = null;
                    for (int i = 2; i < words.length; i++) merged = function.agg(merged, bytes(words[i]));
                    return hex((byte[]) merged);
                case "same":
                    return same(words[1], bytes(words[2]), bytes(words[3]));
                default:
                    return "error: no command " + words[0];
            }
        } catch (Exception | Error e) {
            return "error: " + e;
        }
    }

    private static FieldAggregator function(String name) {
        VarBinaryType type = new VarBinaryType(VarBinaryType.MAX_LENGTH);
        switch (name) {
            case "rbm32":
                return new FieldRoaringBitmap32Agg(name, type);
            case "rbm64":
                return new FieldRoaringBitmap64Agg(name, type);
            case "hll_sketch":
                return new FieldHllSketchAgg(name, type);
            default:
                return new FieldThetaSketchAgg(name, type);
        }
    }

    private static byte[] build(String[] kind, String values) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        boolean plain = kind[kind.length - 1].equals("plain");
        switch (kind[0]) {
            case "rbm32":
                RoaringBitmap narrow = new RoaringBitmap();
                each(values, v -> narrow.add((int) v));
                if (!plain) narrow.runOptimize();
                narrow.serialize(new DataOutputStream(out));
                return out.toByteArray();
            case "rbm64":
                Roaring64Bitmap wide = new Roaring64Bitmap();
                each(values, wide::addLong);
                if (!plain) wide.runOptimize();
                wide.serialize(new DataOutputStream(out));
                return out.toByteArray();
            case "hll_sketch":
                HllSketch hll = new HllSketch(Integer.parseInt(kind[1]), TgtHllType.valueOf(kind[2]));
                each(values, hll::update);
                return kind.length > 3 ? hll.toUpdatableByteArray() : hll.toCompactByteArray();
            default:
                UpdateSketch theta =
                        UpdateSketch.builder().setNominalEntries(1 << Integer.parseInt(kind[1])).build();
                each(values, theta::update);
                return kind.length > 2 ? theta.toByteArray() : theta.compact().toByteArray();
        }
    }

    private static void each(String values, LongConsumer to) {
        for (String part : values.split(",")) {
            if (part.isEmpty()) continue;
            String[] range = part.split("\\.\\.");
            long last = Long.parseLong(range[range.length > 1 ? 1 : 0]);
            long step = range.length > 2 ? Long.parseLong(range[2]) : 1;
            for (long v = Long.parseLong(range[0]); v <= last; v += step) to.accept(v);
        }
    }

    private static String same(String function, byte[] a, byte[] b) throws Exception {
        switch (function) {
            case "rbm32":
                return String.valueOf(narrow(a).equals(narrow(b)));
            case "rbm64":
                return String.valueOf(wide(a).equals(wide(b)));
            case "hll_sketch":
                return HllSketch.heapify(a).getEstimate() + " " + HllSketch.heapify(b).getEstimate();
            default:
                return theta(a).getEstimate() + " " + theta(b).getEstimate();
        }
    }

    private static RoaringBitmap narrow(byte[] from) throws Exception {
        RoaringBitmap out = new RoaringBitmap();
        out.deserialize(new DataInputStream(new ByteArrayInputStream(from)));
        return out;
    }

    private static Roaring64Bitmap wide(byte[] from) throws Exception {
        Roaring64Bitmap out = new Roaring64Bitmap();
        out.deserialize(new DataInputStream(new ByteArrayInputStream(from)));
        return out;
    }

    private static Sketch theta(byte[] from) {
        return Sketch.heapify(Memory.wrap(from));
    }

    private static byte[] bytes(String hex) {
        return HexFormat.of().parseHex(hex);
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
