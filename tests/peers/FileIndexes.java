// Writes and reads file indexes with the classes of Apache Paimon.
//
//   java -cp JAR FileIndexes < commands
//
// A line of standard input is one command as JSON; one line answers it. Bytes are hexadecimal.
//
//   {"do": "write", "kind", "type", "settings", "values"}  the index of values
//   {"do": "read", "kind", "type", "index", "asks"}        the answer of an index to each condition [OPERATOR, LITERAL]
//   {"do": "pack", "indexes": {COLUMN: {KIND: BYTES}}}     the container of indexes
//   {"do": "unpack", "container"}                          the indexes of a container
//
// A value is a number, a text, true or false, null, [MILLIS, NANOS] of a timestamp, {"unscaled"} of a decimal or {"hex"}
// of bytes. An answer is "all", or the positions of rows.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.fileindex.FileIndexFormat;
import org.apache.paimon.fileindex.FileIndexReader;
import org.apache.paimon.fileindex.FileIndexResult;
import org.apache.paimon.fileindex.FileIndexWriter;
import org.apache.paimon.fileindex.FileIndexer;
import org.apache.paimon.fileindex.bitmap.BitmapIndexResult;
import org.apache.paimon.fs.ByteArraySeekableStream;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.FieldRef;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.RowType;

public class FileIndexes {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode step = JSON.readTree(line);
            Object answer = switch (step.get("do").asText()) {
                case "write" -> HEX.formatHex(write(step));
                case "read" -> read(step);
                case "pack" -> HEX.formatHex(pack(step.get("indexes")));
                case "unpack" -> unpack(HEX.parseHex(step.get("container").asText()));
                default -> throw new IllegalArgumentException(line);
            };
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    private static byte[] write(JsonNode step) {
        DataType type = type(step.get("type").asText());
        Map<String, String> settings = new HashMap<>();
        step.get("settings").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
        String kind = step.get("kind").asText();
        FileIndexWriter writer = FileIndexer.create(kind, type, new Options(settings)).createWriter();
        for (JsonNode value : step.get("values")) {
            writer.writeRecord(value(value, type));
        }
        return writer.serializedBytes();
    }

    private static List<Object> read(JsonNode step) {
        DataType type = type(step.get("type").asText());
        byte[] index = HEX.parseHex(step.get("index").asText());
        FieldRef field = new FieldRef(0, "v", type);
        List<Object> answers = new ArrayList<>();
        for (JsonNode ask : step.get("asks")) {
            FileIndexReader reader =
                    FileIndexer.create(step.get("kind").asText(), type, new Options())
                            .createReader(new ByteArraySeekableStream(index), 0, index.length);
            answers.add(plain(ask(reader, field, ask.get(0).asText(), ask.get(1))));
        }
        return answers;
    }

    private static FileIndexResult ask(FileIndexReader reader, FieldRef field, String operator, JsonNode literal) {
        List<Object> some = new ArrayList<>();
        if (literal.isArray() && operator.endsWith("in")) {
            literal.forEach(l -> some.add(value(l, field.type())));
        }
        Object one = some.isEmpty() ? value(literal, field.type()) : null;
        return switch (operator) {
            case "=" -> reader.visitEqual(field, one);
            case "!=" -> reader.visitNotEqual(field, one);
            case "<" -> reader.visitLessThan(field, one);
            case "<=" -> reader.visitLessOrEqual(field, one);
            case ">" -> reader.visitGreaterThan(field, one);
            case ">=" -> reader.visitGreaterOrEqual(field, one);
            case "in" -> reader.visitIn(field, some);
            case "not in" -> reader.visitNotIn(field, some);
            case "is null" -> reader.visitIsNull(field);
            case "is not null" -> reader.visitIsNotNull(field);
            default -> throw new IllegalArgumentException(operator);
        };
    }

    private static Object plain(FileIndexResult result) {
        List<Integer> rows = new ArrayList<>();
        if (result instanceof BitmapIndexResult) {
            ((BitmapIndexResult) result).get().iterator().forEachRemaining(rows::add);
            return rows;
        }
        return result.remain() ? "all" : rows;
    }

    private static byte[] pack(JsonNode indexes) throws Exception {
        Map<String, Map<String, byte[]>> found = new LinkedHashMap<>();
        indexes.fields().forEachRemaining(column -> {
            Map<String, byte[]> kinds = found.computeIfAbsent(column.getKey(), k -> new LinkedHashMap<>());
            column.getValue().fields().forEachRemaining(
                    kind -> kinds.put(kind.getKey(), kind.getValue().isNull() ? null : HEX.parseHex(kind.getValue().asText())));
        });
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (FileIndexFormat.Writer writer = FileIndexFormat.createWriter(out)) {
            writer.writeColumnIndexes(found);
        }
        return out.toByteArray();
    }

    private static Map<String, Map<String, String>> unpack(byte[] container) throws Exception {
        Map<String, Map<String, String>> out = new LinkedHashMap<>();
        try (FileIndexFormat.Reader reader =
                FileIndexFormat.createReader(new ByteArraySeekableStream(container), RowType.of())) {
            reader.readAll().forEach((column, kinds) -> kinds.forEach((kind, bytes) ->
                    out.computeIfAbsent(column, c -> new LinkedHashMap<>()).put(kind, HEX.formatHex(bytes))));
        }
        return out;
    }

    private static DataType type(String text) {
        return switch (text) {
            case "boolean" -> DataTypes.BOOLEAN();
            case "tinyint" -> DataTypes.TINYINT();
            case "smallint" -> DataTypes.SMALLINT();
            case "int" -> DataTypes.INT();
            case "bigint" -> DataTypes.BIGINT();
            case "float" -> DataTypes.FLOAT();
            case "double" -> DataTypes.DOUBLE();
            case "date" -> DataTypes.DATE();
            case "time" -> DataTypes.TIME(3);
            case "decimal" -> DataTypes.DECIMAL(12, 2);
            case "string" -> DataTypes.STRING();
            case "char" -> DataTypes.CHAR(4);
            case "bytes" -> DataTypes.BYTES();
            case "timestamp(3)" -> DataTypes.TIMESTAMP(3);
            case "timestamp(6)" -> DataTypes.TIMESTAMP(6);
            case "timestamp(9)" -> DataTypes.TIMESTAMP(9);
            case "timestamp_ltz(6)" -> DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(6);
            default -> throw new IllegalArgumentException(text);
        };
    }

    private static Object value(JsonNode value, DataType type) {
        if (value.isNull()) {
            return null;
        }
        return switch (type.getTypeRoot()) {
            case BOOLEAN -> value.asBoolean();
            case TINYINT -> (byte) value.asInt();
            case SMALLINT -> (short) value.asInt();
            case BIGINT -> value.asLong();
            case FLOAT -> Float.parseFloat(value.asText());
            case DOUBLE -> Double.parseDouble(value.asText());
            case DECIMAL -> decimal(value.get("unscaled").asLong(), (DecimalType) type);
            case CHAR, VARCHAR -> BinaryString.fromString(value.asText());
            case BINARY, VARBINARY -> HEX.parseHex(value.get("hex").asText());
            case TIMESTAMP_WITHOUT_TIME_ZONE, TIMESTAMP_WITH_LOCAL_TIME_ZONE ->
                    Timestamp.fromEpochMillis(value.get(0).asLong(), value.get(1).asInt());
            default -> value.asInt();
        };
    }

    private static Decimal decimal(long unscaled, DecimalType type) {
        BigDecimal number = new BigDecimal(BigInteger.valueOf(unscaled), type.getScale());
        return Decimal.fromBigDecimal(number, type.getPrecision(), type.getScale());
    }
}
