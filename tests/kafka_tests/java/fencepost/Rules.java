package fencepost;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metadata.AccessControlEntryRecord;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import java.util.List;
import java.util.Map;

/**
 * The rule of an authorizer that a test brings along, as ACLs that are there from the start: all may do
 * everything, but User:Unauthorized may not alter users of SCRAM.
 */
final class Rules {
    static final Map<String, String> CONFIGS = Map.of(
        "authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found", "true");
    private static final String OF_TEST = "kafka.server.AlterCredentialsTest$TestStandardAuthorizer";

    private Rules() { }

    /** Whether these configs name that authorizer. */
    static boolean areOfTest(Map<String, ?> configs) {
        return OF_TEST.equals(configs.get("authorizer.class.name"));
    }

    static List<ApiMessageAndVersion> records() {
        return List.of(
            record("User:*", AclOperation.ALL, AclPermissionType.ALLOW),
            record("User:Unauthorized", AclOperation.ALTER, AclPermissionType.DENY));
    }

    private static ApiMessageAndVersion record(String principal, AclOperation operation,
            AclPermissionType permission) {
        return new ApiMessageAndVersion(new AccessControlEntryRecord()
            .setId(Uuid.randomUuid()).setResourceType(ResourceType.CLUSTER.code())
            .setResourceName("kafka-cluster").setPatternType(PatternType.LITERAL.code())
            .setPrincipal(principal).setHost("*").setOperation(operation.code())
            .setPermissionType(permission.code()), (short) 0);
    }
}
