// Drives Apache Paimon's Java API from a script, so that both sides of an interoperability test can be written as data.
//
//   java -cp paimon-bundle-1.4.2.jar:<pyspark>/jars/* PaimonPeer.java WAREHOUSE < script
//
// Each script line is one JSON object {"do": ..., "table": "db.t", ...}; each answer is one JSON line on stdout.
//   create   columns [[name, type]...], primaryKey [...], partition [...], options {...}
//   write    rows [[...]...], kind "+I" | "-U" | "+U" | "-D" (default +I), bucket (dynamic-bucket tables only)
//   compact  buckets [[partition values..., bucket]...]   full compaction of these buckets
//   tag      name
//   alter    types {column: type...}   changes the types of columns
//   cast     from, to, values [...] (no table)   -> {"allowed": whether ALTER may change the type so, "values":
//            what readers make of each value, {"error": ...} where they fail}
//   read     snapshot or tag, where [column, value, operator] (optional; the operator is = if it is left out)
//            -> {"rows": [[...]...]}; with `where`, all rows that plan and indexes leave over of those that match
//   files                          -> {"files": [[path, level, rows]...]}
// Columns of `create` are texts of types, or types as a schema has them. With "exact": true, `write` takes and `read`
// answers values as tests/columns.py spells them: bits of floating point numbers, counts of a timestamp's unit, and
// lists for arrays, rows and the pairs of maps.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.casting.CastExecutor;
import org.apache.paimon.casting.CastExecutors;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeCasts;
import org.apache.paimon.types.DataTypeChecks;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.IntType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.CloseableIterator;
import org.apache.paimon.utils.JsonSerdeUtil;

public class PaimonPeer {
    private static final ObjectMapper JSON = new ObjectMapper();
    final Catalog catalog;

    PaimonPeer(String warehouse) {
        Options options = new Options();
        options.set("warehouse", warehouse);
        options.set("cache-enabled", "false");
        catalog = CatalogFactory.createCatalog(CatalogContext.create(options));
    }

    PaimonPeer(Catalog catalog) {
        this.catalog = catalog;
    }

    public static void main(String[] args) throws Exception {
        run(new PaimonPeer(args[0]));
    }

    static void run(PaimonPeer peer) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.isBlank()) continue;
            Map<String, Object> answer = new HashMap<>();
            try {
                peer.step(JSON.readTree(line), answer);
            } catch (Exception e) {
                answer.put("error", e.getClass().getSimpleName() + ": " + e.getMessage());
                answer.put("at", Arrays.stream(e.getStackTrace()).limit(8).map(String::valueOf).toList());
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    void step(JsonNode step, Map<String, Object> answer) throws Exception {
        if (step.get("do").asText().equals("cast")) {
            cast(step, answer);
            return;
        }
        String[] name = step.get("table").asText().split("\\.");
        Identifier id = Identifier.create(name[0], name[1]);
        switch (step.get("do").asText()) {
            case "create" -> create(id, step);
            case "alter" -> alter(id, step.get("types"));
            case "write" -> write(catalog.getTable(id), step);
            case "compact" -> compact(catalog.getTable(id), step);
            case "tag" -> catalog.getTable(id).createTag(step.get("name").asText());
            case "read" -> answer.put("rows", read(catalog.getTable(id), step));
            case "files" -> answer.put("files", files(id));
            default -> throw new IllegalArgumentException("unknown step " + step);
        }
    }

    private void create(Identifier id, JsonNode step) throws Exception {
        catalog.createDatabase(id.getDatabaseName(), true);
        Schema.Builder schema = Schema.newBuilder();
        for (JsonNode c : step.get("columns")) {
            schema.column(c.get(0).asText(), type(c.get(1)));
        }
        schema.primaryKey(texts(step.get("primaryKey")));
        schema.partitionKeys(texts(step.get("partition")));
        if (step.has("options")) {
            step.get("options").fields().forEachRemaining(e -> schema.option(e.getKey(), e.getValue().asText()));
        }
        catalog.createTable(id, schema.build(), false);
    }

    private void alter(Identifier id, JsonNode types) throws Exception {
        List<SchemaChange> changes = new ArrayList<>();
        types.fields().forEachRemaining(e -> changes.add(SchemaChange.updateColumnType(e.getKey(), type(e.getValue()))));
        catalog.alterTable(id, changes, false);
    }

    private static DataType type(JsonNode text) {
        return JsonSerdeUtil.fromJson(text.toString(), DataType.class);
    }

    @SuppressWarnings("unchecked")
    private static void cast(JsonNode step, Map<String, Object> answer) throws Exception {
        DataType from = type(step.get("from"));
        DataType to = type(step.get("to"));
        CastExecutor<Object, Object> executor = (CastExecutor<Object, Object>) CastExecutors.resolve(from, to);
        // Asked by its name, because the oldest peer, which is asked for no cast, has no such method.
        boolean allowed = executor != null && (boolean) DataTypeCasts.class
                .getMethod("supportsCast", DataType.class, DataType.class, boolean.class).invoke(null, from, to, true);
        answer.put("allowed", allowed);
        if (!allowed) return;
        List<Object> out = new ArrayList<>();
        for (JsonNode v : step.get("values")) {
            try {
                out.add(v.isNull() ? null : plain(to, executor.cast(value(from, v))));
            } catch (RuntimeException e) {
                out.add(Map.of("error", e.getClass().getSimpleName()));
            }
        }
        answer.put("values", out);
    }

    static List<String> texts(JsonNode node) {
        List<String> out = new ArrayList<>();
        if (node != null) node.forEach(n -> out.add(n.asText()));
        return out;
    }

    private static void write(Table table, JsonNode step) throws Exception {
        RowKind kind = RowKind.fromShortString(step.has("kind") ? step.get("kind").asText() : "+I");
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(new org.apache.paimon.disk.IOManagerImpl(System.getProperty("java.io.tmpdir")));
            for (JsonNode values : step.get("rows")) {
                GenericRow row = step.path("exact").asBoolean()
                        ? (GenericRow) exactValue(table.rowType(), values)
                        : row(table.rowType(), values);
                row.setRowKind(kind);
                if (step.has("bucket")) write.write(row, step.get("bucket").asInt());
                else write.write(row);
            }
            commit.commit(write.prepareCommit());
        }
    }

    private static void compact(Table table, JsonNode step) throws Exception {
        RowType partition = table.rowType().project(table.partitionKeys());
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(new org.apache.paimon.disk.IOManagerImpl(System.getProperty("java.io.tmpdir")));
            for (JsonNode bucket : step.get("buckets")) {
                BinaryRow values = BinaryRow.EMPTY_ROW;
                if (partition.getFieldCount() > 0) {
                    values = new InternalRowSerializer(partition).toBinaryRow(row(partition, bucket)).copy();
                }
                write.compact(values, bucket.get(bucket.size() - 1).asInt(), true);
            }
            commit.commit(write.prepareCommit());
        }
    }

    static GenericRow row(RowType type, JsonNode values) {
        GenericRow row = new GenericRow(type.getFieldCount());
        for (int i = 0; i < type.getFieldCount(); i++) {
            JsonNode v = values.get(i);
            row.setField(i, v == null || v.isNull() ? null : value(type.getTypeAt(i), v));
        }
        return row;
    }

    private static Object value(DataType type, JsonNode v) {
        return switch (type.getTypeRoot()) {
            case BOOLEAN -> v.asBoolean();
            case TINYINT -> (byte) v.asInt();
            case SMALLINT -> (short) v.asInt();
            case INTEGER -> v.asInt();
            case BIGINT -> v.asLong();
            case FLOAT -> v.isTextual() ? Float.parseFloat(v.asText()) : (float) v.asDouble();
            case DOUBLE -> v.isTextual() ? Double.parseDouble(v.asText()) : v.asDouble();
            case CHAR, VARCHAR -> BinaryString.fromString(v.asText());
            case BINARY, VARBINARY -> HexFormat.of().parseHex(v.asText());
            case DATE -> (int) LocalDate.parse(v.asText()).toEpochDay();
            case TIME_WITHOUT_TIME_ZONE -> v.isTextual()
                    ? (int) (LocalTime.parse(v.asText()).toNanoOfDay() / 1_000_000)
                    : v.asInt();
            case TIMESTAMP_WITHOUT_TIME_ZONE, TIMESTAMP_WITH_LOCAL_TIME_ZONE ->
                    Timestamp.fromLocalDateTime(LocalDateTime.parse(v.asText().replace(' ', 'T')));
            case DECIMAL -> {
                DecimalType d = (DecimalType) type;
                yield Decimal.fromBigDecimal(new BigDecimal(v.asText()), d.getPrecision(), d.getScale());
            }
            case ARRAY -> {
                DataType element = ((ArrayType) type).getElementType();
                List<Object> out = new ArrayList<>();
                v.forEach(e -> out.add(e.isNull() ? null : value(element, e)));
                yield new GenericArray(out.toArray());
            }
            case MAP -> {
                MapType map = (MapType) type;
                Map<Object, Object> out = new LinkedHashMap<>();
                v.forEach(e -> out.put(
                        value(map.getKeyType(), e.get(0)), e.get(1).isNull() ? null : value(map.getValueType(), e.get(1))));
                yield new GenericMap(out);
            }
            case ROW -> row((RowType) type, v);
            default -> newerValue(type, v);
        };
    }

    /** A value of a type that the oldest peer does not have, and so is made by names. */
    private static Object newerValue(DataType type, JsonNode v) {
        try {
            switch (type.getTypeRoot().name()) {
                case "BLOB":
                    byte[] bytes = HexFormat.of().parseHex(v.asText());
                    return Class.forName("org.apache.paimon.data.BlobData").getConstructor(byte[].class).newInstance(bytes);
                case "VECTOR":
                    float[] floats = new float[v.size()];
                    for (int i = 0; i < floats.length; i++) floats[i] = (float) v.get(i).asDouble();
                    return Class.forName("org.apache.paimon.data.BinaryVector")
                            .getMethod("fromPrimitiveArray", float[].class).invoke(null, (Object) floats);
                default:
                    throw new IllegalArgumentException("no value of type " + type);
            }
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Object newerPlain(DataType type, Object v) {
        try {
            return switch (type.getTypeRoot().name()) {
                case "BLOB" -> HexFormat.of().formatHex((byte[]) v.getClass().getMethod("toData").invoke(v));
                case "VECTOR" -> v.getClass().getMethod("toFloatArray").invoke(v);
                default -> v.toString();
            };
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    static List<List<Object>> read(Table table, JsonNode step) throws Exception {
        Table source = table;
        if (step.has("snapshot")) source = table.copy(Map.of("scan.snapshot-id", step.get("snapshot").asText()));
        if (step.has("tag")) source = table.copy(Map.of("scan.tag-name", step.get("tag").asText()));
        ReadBuilder builder = source.newReadBuilder();
        List<DataField> fields = source.rowType().getFields();
        if (step.has("where")) {
            int column = source.rowType().getFieldIndex(step.get("where").get(0).asText());
            builder = builder.withFilter(filter(source, column, step.get("where")));
        }
        List<List<Object>> out = new ArrayList<>();
        try (RecordReader<InternalRow> reader = builder.newRead().createReader(builder.newScan().plan());
                CloseableIterator<InternalRow> rows = reader.toCloseableIterator()) {
            while (rows.hasNext()) {
                InternalRow row = rows.next();
                List<Object> values = new ArrayList<>();
                boolean exact = step.path("exact").asBoolean();
                for (int i = 0; i < fields.size(); i++) {
                    values.add(exact ? exact(fields.get(i).type(), field(fields.get(i).type(), row, i))
                            : plain(fields.get(i).type(), row, i));
                }
                out.add(values);
            }
        }
        return out;
    }

    private static Predicate filter(Table table, int column, JsonNode where) {
        DataType type = table.rowType().getTypeAt(column);
        PredicateBuilder of = new PredicateBuilder(table.rowType());
        JsonNode value = where.get(1);
        return switch (where.size() < 3 ? "=" : where.get(2).asText()) {
            case "=" -> of.equal(column, value(type, value));
            case "!=" -> of.notEqual(column, value(type, value));
            case "<" -> of.lessThan(column, value(type, value));
            case "<=" -> of.lessOrEqual(column, value(type, value));
            case ">" -> of.greaterThan(column, value(type, value));
            case ">=" -> of.greaterOrEqual(column, value(type, value));
            case "is null" -> of.isNull(column);
            case "is not null" -> of.isNotNull(column);
            case "starts with" -> of.startsWith(column, value(type, value));
            case "in" -> {
                List<Object> literals = new ArrayList<>();
                for (JsonNode v : value) literals.add(value(type, v));
                yield of.in(column, literals);
            }
            default -> throw new IllegalArgumentException("unknown filter " + where);
        };
    }

    private static Object plain(DataType type, InternalRow row, int i) {
        return plain(type, InternalRow.createFieldGetter(type, i).getFieldOrNull(row));
    }

    private static Object plain(DataType type, Object v) {
        if (v == null) return null;
        return switch (type.getTypeRoot()) {
            case BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, FLOAT, DOUBLE, TIME_WITHOUT_TIME_ZONE -> v;
            case DATE -> LocalDate.ofEpochDay((Integer) v).toString();
            case BINARY, VARBINARY -> HexFormat.of().formatHex((byte[]) v);
            case TIMESTAMP_WITHOUT_TIME_ZONE, TIMESTAMP_WITH_LOCAL_TIME_ZONE ->
                    ((Timestamp) v).toLocalDateTime().toString();
            default -> newerPlain(type, v);
        };
    }

    private static Object field(DataType type, InternalRow row, int i) {
        return InternalRow.createFieldGetter(type, i).getFieldOrNull(row);
    }

    private static int unit(DataType type) {
        int precision = DataTypeChecks.getPrecision(type);
        return precision <= 3 ? 1_000_000 : precision <= 6 ? 1000 : 1;
    }

    private static Object exactValue(DataType type, JsonNode v) {
        if (v == null || v.isNull()) return null;
        return switch (type.getTypeRoot()) {
            case BIGINT -> Long.parseLong(v.asText());
            case FLOAT -> v.asText().equals("NaN") ? Float.NaN : Float.intBitsToFloat(Integer.parseInt(v.asText()));
            case DOUBLE -> v.asText().equals("NaN") ? Double.NaN : Double.longBitsToDouble(Long.parseLong(v.asText()));
            case DATE, TIME_WITHOUT_TIME_ZONE -> v.asInt();
            case TIMESTAMP_WITHOUT_TIME_ZONE, TIMESTAMP_WITH_LOCAL_TIME_ZONE -> {
                long perMilli = 1_000_000 / unit(type);
                long count = Long.parseLong(v.asText());
                yield Timestamp.fromEpochMillis(
                        Math.floorDiv(count, perMilli), (int) Math.floorMod(count, perMilli) * unit(type));
            }
            case ARRAY -> {
                Object[] out = new Object[v.size()];
                for (int i = 0; i < out.length; i++) out[i] = exactValue(((ArrayType) type).getElementType(), v.get(i));
                yield new GenericArray(out);
            }
            case MAP, MULTISET -> {
                Map<Object, Object> out = new LinkedHashMap<>();
                for (JsonNode p : v) out.put(exactValue(keyType(type), p.get(0)), exactValue(valueType(type), p.get(1)));
                yield new GenericMap(out);
            }
            case ROW -> {
                GenericRow row = new GenericRow(v.size());
                for (int i = 0; i < v.size(); i++) {
                    row.setField(i, exactValue(((RowType) type).getTypeAt(i), v.get(i)));
                }
                yield row;
            }
            default -> value(type, v);
        };
    }

    private static DataType keyType(DataType type) {
        return type instanceof MapType m ? m.getKeyType() : ((MultisetType) type).getElementType();
    }

    private static DataType valueType(DataType type) {
        return type instanceof MapType m ? m.getValueType() : new IntType(false);
    }

    private static Object exact(DataType type, Object v) {
        if (v == null) return null;
        return switch (type.getTypeRoot()) {
            case BOOLEAN, TINYINT, SMALLINT, INTEGER, DATE, TIME_WITHOUT_TIME_ZONE -> v;
            case FLOAT -> Float.isNaN((Float) v) ? "NaN" : String.valueOf(Float.floatToRawIntBits((Float) v));
            case DOUBLE -> Double.isNaN((Double) v) ? "NaN" : String.valueOf(Double.doubleToRawLongBits((Double) v));
            case BINARY, VARBINARY -> HexFormat.of().formatHex((byte[]) v);
            case DECIMAL -> ((Decimal) v).toBigDecimal().toPlainString();
            case TIMESTAMP_WITHOUT_TIME_ZONE, TIMESTAMP_WITH_LOCAL_TIME_ZONE -> {
                Timestamp t = (Timestamp) v;
                long perMilli = 1_000_000 / unit(type);
                yield String.valueOf(t.getMillisecond() * perMilli + t.getNanoOfMillisecond() / unit(type));
            }
            case ARRAY -> exactAll(((ArrayType) type).getElementType(), (InternalArray) v);
            case MAP, MULTISET -> {
                List<Object> keys = exactAll(keyType(type), ((InternalMap) v).keyArray());
                List<Object> values = exactAll(valueType(type), ((InternalMap) v).valueArray());
                List<Object> out = new ArrayList<>();
                for (int i = 0; i < keys.size(); i++) out.add(Arrays.asList(keys.get(i), values.get(i)));
                yield out;
            }
            case ROW -> {
                List<Object> out = new ArrayList<>();
                RowType row = (RowType) type;
                for (int i = 0; i < row.getFieldCount(); i++) {
                    out.add(exact(row.getTypeAt(i), field(row.getTypeAt(i), (InternalRow) v, i)));
                }
                yield out;
            }
            default -> v.toString();
        };
    }

    private static List<Object> exactAll(DataType type, InternalArray array) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        List<Object> out = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) out.add(exact(type, getter.getElementOrNull(array, i)));
        return out;
    }

    private List<List<Object>> files(Identifier id) throws Exception {
        List<List<Object>> out = new ArrayList<>();
        FileStoreTable table = (FileStoreTable) catalog.getTable(id);
        table.store().newScan().plan().files().forEach(
                e -> out.add(List.of(e.bucket(), e.file().fileName(), e.file().level(), e.file().rowCount())));
        return out;
    }
}
