// Prints the names that one release of Apache Paimon accepts in metadata files, as one JSON object.
//
//   java -cp JAR:<pyspark>/jars/* Vocabulary.java < types
//
// Standard input holds one type a line, as schema files spell it; `types` of the answer says which of them it parses.
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.paimon.options.ConfigOption;
import org.apache.paimon.types.DataTypeJsonParser;

public class Vocabulary {
    private static final Map<String, String> ENUMS = Map.of(
            "commitKind", "org.apache.paimon.Snapshot$CommitKind",
            "operation", "org.apache.paimon.Snapshot$Operation",
            "fileKind", "org.apache.paimon.manifest.FileKind",
            "fileSource", "org.apache.paimon.manifest.FileSource",
            "rowKind", "org.apache.paimon.types.RowKind");
    private static final Map<String, String[]> CONSTANTS = Map.of(
            "hashIndex", new String[] {"org.apache.paimon.index.HashIndexFile", "HASH_INDEX"},
            "deletionVectorsIndex",
                    new String[] {"org.apache.paimon.deletionvectors.DeletionVectorsIndexFile", "DELETION_VECTORS_INDEX"});

    public static void main(String[] args) throws Exception {
        Map<String, Object> out = new TreeMap<>();
        Map<String, Object> enums = new TreeMap<>();
        for (Map.Entry<String, String> e : ENUMS.entrySet()) enums.put(e.getKey(), names(e.getValue()));
        out.put("enums", enums);
        Map<String, Object> constants = new TreeMap<>();
        for (Map.Entry<String, String[]> e : CONSTANTS.entrySet()) {
            constants.put(e.getKey(), Class.forName(e.getValue()[0]).getField(e.getValue()[1]).get(null));
        }
        out.put("constants", constants);
        out.put("options", options());
        out.put("types", types());
        System.out.println(new ObjectMapper().writeValueAsString(out));
    }

    private static List<String> names(String type) {
        try {
            List<String> names = new ArrayList<>();
            for (Object each : Class.forName(type).getEnumConstants()) names.add(((Enum<?>) each).name());
            return names;
        } catch (ClassNotFoundException e) {
            return null;
        }
    }

    private static Map<String, Object> options() throws Exception {
        Map<String, Object> out = new TreeMap<>();
        Method type = ConfigOption.class.getDeclaredMethod("getClazz");
        type.setAccessible(true);
        for (Field field : Class.forName("org.apache.paimon.CoreOptions").getFields()) {
            if (field.getType() != ConfigOption.class) continue;
            ConfigOption<?> option = (ConfigOption<?>) field.get(null);
            Class<?> values = (Class<?>) type.invoke(option);
            List<String> words = null;
            if (values.isEnum()) {
                words = new ArrayList<>();
                for (Object each : values.getEnumConstants()) words.add(each.toString());
            }
            out.put(option.key(), words);
        }
        return out;
    }

    private static Map<String, Boolean> types() throws Exception {
        Map<String, Boolean> out = new TreeMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            boolean parsed = true;
            try {
                DataTypeJsonParser.parseAtomicTypeSQLString(line);
            } catch (Exception e) {
                parsed = false;
            }
            out.put(line, parsed);
        }
        return out;
    }
}
