// The steps of PaimonPeer, and those of tables with data evolution, by the Java API of Paimon 1.4 and later.
//
//   writeColumns   columns [name...], rows [[values of these columns...]...], firstRowId   writes other values of the
//                  columns of rows that are in the table; the rows begin with that id
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.types.RowType;

public class EvolvingPeer extends PaimonPeer {
    EvolvingPeer(String warehouse) {
        super(warehouse);
    }

    public static void main(String[] args) throws Exception {
        run(new EvolvingPeer(args[0]));
    }

    @Override
    void step(JsonNode step, Map<String, Object> answer) throws Exception {
        if (!step.get("do").asText().equals("writeColumns")) {
            super.step(step, answer);
            return;
        }
        String[] name = step.get("table").asText().split("\\.");
        Table table = catalog.getTable(Identifier.create(name[0], name[1]));
        RowType type = table.rowType().project(texts(step.get("columns")));
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            write.withWriteType(type);
            for (JsonNode values : step.get("rows")) write.write(row(type, values));
            List<CommitMessage> messages = new ArrayList<>();
            for (CommitMessage m : write.prepareCommit()) {
                messages.add(placed((CommitMessageImpl) m, step.get("firstRowId").asLong()));
            }
            commit.commit(messages);
        }
    }

    private static CommitMessage placed(CommitMessageImpl message, long firstRowId) {
        List<DataFileMeta> files = message.newFilesIncrement().newFiles().stream()
                .map(f -> f.assignFirstRowId(firstRowId))
                .collect(Collectors.toList());
        return new CommitMessageImpl(
                message.partition(),
                message.bucket(),
                message.totalBuckets(),
                new DataIncrement(files, List.of(), List.of()),
                message.compactIncrement());
    }
}
