// The steps of a random history beyond those of PaimonPeer, by the Java API of Paimon 1.4 and later.
//
// Each answer has the snapshot that is the newest after the step.
//   write          rows [[kind, values...]...]; finds the bucket of each row in tables with dynamic buckets
//   overwrite      rows [[values...]...]; the partitions of the rows, or the whole table without partitions
//   compactTable   full
//   expire         retain
//   createTag      name, snapshot
//   deleteTag      name
//   rollback       snapshot or tag
//   truncate       partitions [{column: text}...]; the whole table without them
//   alter          add [name, type], rename [from, to], drop name, type [name, type]
//   removeOrphans
//   states         tags [...], snapshots [...]   -> {"states": [rows, rows...]}: latest, then tags, then snapshots
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.disk.IOManagerImpl;
import org.apache.paimon.index.BucketAssigner;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.index.SimpleHashBucketAssigner;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.RowKind;

public class TrialPeer extends PaimonPeer {
    TrialPeer(String warehouse) {
        super(warehouse);
    }

    public static void main(String[] args) throws Exception {
        run(new TrialPeer(args[0]));
    }

    @Override
    void step(JsonNode step, Map<String, Object> answer) throws Exception {
        String[] name = step.get("table").asText().split("\\.");
        Identifier id = Identifier.create(name[0], name[1]);
        String what = step.get("do").asText();
        if (what.equals("create")) {
            super.step(step, answer);
            return;
        }
        FileStoreTable table = (FileStoreTable) catalog.getTable(id);
        switch (what) {
            case "write" -> write(table, step.get("rows"), false);
            case "overwrite" -> write(table, step.get("rows"), true);
            case "compactTable" -> compactTable(
                    table.copy(Map.of("write-only", "false")), step.get("full").asBoolean());
            case "expire" -> table.newExpireSnapshots().config(ExpireConfig.builder()
                    .snapshotRetainMax(step.get("retain").asInt()).snapshotRetainMin(1)
                    .snapshotTimeRetain(Duration.ZERO).build()).expire();
            case "createTag" -> table.createTag(step.get("name").asText(), step.get("snapshot").asLong());
            case "deleteTag" -> table.deleteTag(step.get("name").asText());
            case "rollback" -> {
                if (step.has("tag")) table.rollbackTo(step.get("tag").asText());
                else table.rollbackTo(step.get("snapshot").asLong());
            }
            case "truncate" -> truncate(table, step.get("partitions"));
            case "alter" -> catalog.alterTable(id, List.of(change(step)), false);
            case "removeOrphans" -> {
                long later = System.currentTimeMillis() + Duration.ofDays(1).toMillis();
                new LocalOrphanFilesClean(table, later, false).clean();
            }
            case "states" -> answer.put("states", states(table, step));
            default -> super.step(step, answer);
        }
    }

    private static void write(FileStoreTable table, JsonNode rows, boolean overwrite) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        if (overwrite) builder.withOverwrite();
        boolean dynamic = table.bucketMode() == BucketMode.HASH_DYNAMIC;
        RowPartitionKeyExtractor keys = new RowPartitionKeyExtractor(table.schema());
        BucketAssigner buckets = dynamic ? assigner(table, overwrite) : null;
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(new IOManagerImpl(System.getProperty("java.io.tmpdir")));
            for (JsonNode values : rows) {
                List<JsonNode> columns = new ArrayList<>();
                values.forEach(columns::add);
                RowKind kind = overwrite ? RowKind.INSERT : RowKind.fromShortString(columns.remove(0).asText());
                GenericRow row = row(table.rowType(), new ArrayNode(JsonNodeFactory.instance, columns));
                row.setRowKind(kind);
                if (dynamic) {
                    int hash = keys.trimmedPrimaryKey(row).hashCode();
                    write.write(row, buckets.assign(keys.partition(row).copy(), hash));
                } else {
                    write.write(row);
                }
            }
            commit.commit(write.prepareCommit());
        }
    }

    private static BucketAssigner assigner(FileStoreTable table, boolean overwrite) {
        CoreOptions options = table.coreOptions();
        long rows = options.dynamicBucketTargetRowNum();
        int most = options.dynamicBucketMaxBuckets();
        if (overwrite) return new SimpleHashBucketAssigner(1, 0, rows, most);
        return new HashBucketAssigner(table.snapshotManager(), UUID.randomUUID().toString(),
                table.store().newIndexFileHandler(), 1, 1, 0, rows, most);
    }

    private static void compactTable(FileStoreTable table, boolean full) throws Exception {
        if (table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
            String user = UUID.randomUUID().toString();
            List<CommitMessage> messages = new ArrayList<>();
            BaseAppendFileStoreWrite write = (BaseAppendFileStoreWrite) table.store().newWrite(user);
            if (table.coreOptions().rowTrackingEnabled()) {
                write.withWriteType(SpecialFields.rowTypeWithRowTracking(table.rowType()));
            }
            try (TableCommitImpl commit = table.newCommit(user)) {
                for (AppendCompactTask task : new AppendCompactCoordinator(table, false).run()) {
                    messages.add(task.doCompact(table, write));
                }
                commit.commit(0, messages);
            } catch (EndOfScanException e) {
                // there are no files
            } finally {
                write.close();
            }
            return;
        }
        Set<Map.Entry<BinaryRow, Integer>> places = new LinkedHashSet<>();
        for (ManifestEntry e : table.store().newScan().plan().files()) {
            places.add(Map.entry(e.partition().copy(), e.bucket()));
        }
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(new IOManagerImpl(System.getProperty("java.io.tmpdir")));
            for (Map.Entry<BinaryRow, Integer> place : places) write.compact(place.getKey(), place.getValue(), full);
            commit.commit(write.prepareCommit());
        }
    }

    private static void truncate(FileStoreTable table, JsonNode partitions) throws Exception {
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            if (partitions == null) {
                commit.truncateTable();
                return;
            }
            List<Map<String, String>> chosen = new ArrayList<>();
            for (JsonNode p : partitions) {
                Map<String, String> one = new HashMap<>();
                p.fields().forEachRemaining(e -> one.put(e.getKey(), e.getValue().asText()));
                chosen.add(one);
            }
            commit.truncatePartitions(chosen);
        }
    }

    private static SchemaChange change(JsonNode step) {
        if (step.has("add")) return SchemaChange.addColumn(step.get("add").get(0).asText(), type(step.get("add")));
        if (step.has("drop")) return SchemaChange.dropColumn(step.get("drop").asText());
        if (step.has("type")) {
            return SchemaChange.updateColumnType(step.get("type").get(0).asText(), type(step.get("type")));
        }
        return SchemaChange.renameColumn(step.get("rename").get(0).asText(), step.get("rename").get(1).asText());
    }

    private static DataType type(JsonNode column) {
        return DataTypeJsonParser.parseAtomicTypeSQLString(column.get(1).asText());
    }

    private static List<List<List<Object>>> states(FileStoreTable table, JsonNode step) throws Exception {
        List<List<List<Object>>> out = new ArrayList<>();
        out.add(read(table, step));
        for (JsonNode tag : step.get("tags")) out.add(read(table.copy(Map.of("scan.tag-name", tag.asText())), step));
        for (JsonNode id : step.get("snapshots")) {
            out.add(read(table.copy(Map.of("scan.snapshot-id", id.asText())), step));
        }
        return out;
    }
}
