import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;

/** Prints what DatabaseMetaData answers, one line a row, cells separated by tabs: JdbcMetadata URL REQUEST [ARGUMENT …], «-» is null. */
public final class JdbcMetadata {
    public static void main(String[] args) throws Exception {
        Class.forName("org.apache.hive.jdbc.HiveDriver");
        try (Connection connection = DriverManager.getConnection(args[0], "test", "")) {
            DatabaseMetaData data = connection.getMetaData();
            for (int i = 1; i < args.length; i++) {
                String[] request = args[i].split(" ");
                for (int k = 0; k < request.length; k++) {
                    request[k] = request[k].equals("-") ? null : request[k];
                }
                System.out.println("# " + args[i]);
                print(answer(data, request));
            }
        }
    }

    private static ResultSet answer(DatabaseMetaData data, String[] r) throws SQLException {
        switch (r[0]) {
            case "catalogs": return data.getCatalogs();
            case "schemas": return r.length == 1 ? data.getSchemas() : data.getSchemas(r[1], r[2]);
            case "tables": return data.getTables(r[1], r[2], r[3], r.length > 4 ? new String[] {r[4]} : null);
            case "columns": return data.getColumns(r[1], r[2], r[3], r[4]);
            case "keys": return data.getPrimaryKeys(r[1], r[2], r[3]);
            case "types": return data.getTypeInfo();
            default: throw new IllegalArgumentException(r[0]);
        }
    }

    private static void print(ResultSet rows) throws SQLException {
        int width = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            StringBuilder line = new StringBuilder();
            for (int i = 1; i <= width; i++) {
                line.append(i > 1 ? "\t" : "").append(rows.getObject(i));
            }
            System.out.println(line);
        }
    }
}
