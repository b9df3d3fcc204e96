// The steps of PaimonPeer, and those of global indexes, by the Java API of Paimon 2.0 and later.
//
//   createIndex   column, kind   builds an index of the rows that have none
//   dropIndex     column, kind   removes the files of an index   -> {"dropped": number of files}
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.globalindex.sorted.SortedGlobalIndexBuilder;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.source.DataSplit;

public class GlobalIndexPeer extends PaimonPeer {
    GlobalIndexPeer(String warehouse) {
        super(warehouse);
    }

    public static void main(String[] args) throws Exception {
        run(new GlobalIndexPeer(args[0]));
    }

    @Override
    void step(JsonNode step, Map<String, Object> answer) throws Exception {
        String what = step.get("do").asText();
        if (!what.endsWith("Index")) {
            super.step(step, answer);
            return;
        }
        String[] name = step.get("table").asText().split("\\.");
        FileStoreTable table = (FileStoreTable) catalog.getTable(Identifier.create(name[0], name[1]));
        List<CommitMessage> messages = what.equals("createIndex") ? create(table, step) : drop(table, step, answer);
        try (TableCommitImpl commit = table.newCommit("peer")) {
            commit.commit(messages);
        }
    }

    private static List<CommitMessage> create(FileStoreTable table, JsonNode step) throws Exception {
        SortedGlobalIndexBuilder builder = new SortedGlobalIndexBuilder(table, step.get("kind").asText())
                .withIndexField(step.get("column").asText());
        List<CommitMessage> messages = new ArrayList<>();
        List<DataSplit> splits = builder.incrementalScan().orElseThrow().getRight();
        try (IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"))) {
            for (DataSplit split : SortedGlobalIndexBuilder.splitByContiguousRowRange(splits)) {
                messages.addAll(builder.build(split, io));
            }
        }
        return messages;
    }

    private static List<CommitMessage> drop(FileStoreTable table, JsonNode step, Map<String, Object> answer) {
        int id = table.rowType().getField(step.get("column").asText()).id();
        Map<BinaryRow, List<IndexFileMeta>> files = new HashMap<>();
        int dropped = 0;
        for (IndexManifestEntry e : table.store().newIndexFileHandler()
                .scan(table.latestSnapshot().orElseThrow(), step.get("kind").asText())) {
            if (e.indexFile().globalIndexMeta().indexFieldId() != id) continue;
            files.computeIfAbsent(e.partition(), p -> new ArrayList<>()).add(e.indexFile());
            dropped++;
        }
        answer.put("dropped", dropped);
        List<CommitMessage> messages = new ArrayList<>();
        files.forEach((partition, found) -> messages.add(new CommitMessageImpl(
                partition, 0, null, DataIncrement.deleteIndexIncrement(found), CompactIncrement.emptyIncrement())));
        return messages;
    }
}
