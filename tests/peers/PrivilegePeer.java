// The privileges of a warehouse by Paimon's Java API. Each step has a user and a password, or neither for anonymous:
//   init        root                         the password of root
//   createUser  name, secret
//   dropUser    name
//   grant       name, privilege, on [database?, table?]
//   revoke      name, privilege, on [database?, table?]
//   drop, rename (to), createDatabase, dropDatabase     by the catalog
// All other steps are those of PaimonPeer, run by the catalog of the user.
import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import org.apache.paimon.catalog.AbstractCatalog;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.DelegateCatalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.options.Options;
import org.apache.paimon.privilege.FileBasedPrivilegeManager;
import org.apache.paimon.privilege.PrivilegeType;
import org.apache.paimon.privilege.PrivilegedCatalog;

public class PrivilegePeer extends PaimonPeer {
    private final String warehouse;

    PrivilegePeer(String warehouse) {
        super(warehouse);
        this.warehouse = warehouse;
    }

    public static void main(String[] args) throws Exception {
        run(new PrivilegePeer(args[0]));
    }

    @Override
    void step(JsonNode step, Map<String, Object> answer) throws Exception {
        Catalog own = login(step);
        String name = step.path("name").asText();
        switch (step.get("do").asText()) {
            case "init" -> {
                AbstractCatalog root = (AbstractCatalog) DelegateCatalog.rootCatalog(own);
                new FileBasedPrivilegeManager(root.warehouse(), root.fileIO(), "anonymous", "anonymous")
                        .initializePrivilege(step.get("root").asText());
            }
            case "createUser" -> ((PrivilegedCatalog) own).createPrivilegedUser(name, step.get("secret").asText());
            case "dropUser" -> ((PrivilegedCatalog) own).dropPrivilegedUser(name);
            case "grant" -> grant((PrivilegedCatalog) own, name, step);
            case "revoke" -> answer.put("revoked", revoke((PrivilegedCatalog) own, name, step));
            case "drop" -> own.dropTable(table(step.get("table")), false);
            case "rename" -> own.renameTable(table(step.get("table")), table(step.get("to")), false);
            case "createDatabase" -> own.createDatabase(name, false);
            case "dropDatabase" -> own.dropDatabase(name, false, true);
            default -> new PaimonPeer(own).step(step, answer);
        }
    }

    private Catalog login(JsonNode step) {
        Options options = new Options();
        options.set("warehouse", warehouse);
        options.set("cache-enabled", "false");
        if (step.has("user")) {
            options.set("user", step.get("user").asText());
            options.set("password", step.get("password").asText());
        }
        return CatalogFactory.createCatalog(CatalogContext.create(options));
    }

    private static void grant(PrivilegedCatalog catalog, String name, JsonNode step) {
        PrivilegeType privilege = PrivilegeType.valueOf(step.get("privilege").asText());
        JsonNode on = step.get("on");
        switch (on.size()) {
            case 0 -> catalog.grantPrivilegeOnCatalog(name, privilege);
            case 1 -> catalog.grantPrivilegeOnDatabase(name, on.get(0).asText(), privilege);
            default -> catalog.grantPrivilegeOnTable(name, Identifier.create(on.get(0).asText(), on.get(1).asText()), privilege);
        }
    }

    private static int revoke(PrivilegedCatalog catalog, String name, JsonNode step) {
        PrivilegeType privilege = PrivilegeType.valueOf(step.get("privilege").asText());
        JsonNode on = step.get("on");
        return switch (on.size()) {
            case 0 -> catalog.revokePrivilegeOnCatalog(name, privilege);
            case 1 -> catalog.revokePrivilegeOnDatabase(name, on.get(0).asText(), privilege);
            default -> catalog.revokePrivilegeOnTable(name, Identifier.create(on.get(0).asText(), on.get(1).asText()), privilege);
        };
    }

    private static Identifier table(JsonNode name) {
        String[] parts = name.asText().split("\\.");
        return Identifier.create(parts[0], parts[1]);
    }
}
