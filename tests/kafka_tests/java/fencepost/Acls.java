package fencepost;

import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.message.CreateAclsRequestData;
import org.apache.kafka.common.message.DeleteAclsRequestData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.CreateAclsRequest;
import org.apache.kafka.common.requests.CreateAclsResponse;
import org.apache.kafka.common.requests.DeleteAclsRequest;
import org.apache.kafka.common.requests.DeleteAclsResponse;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Authorizer;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;

import scala.Option;

/** What tests ask of a node's authorizer: the ACLs that it knows, and to change them at the controller. */
public final class Acls {
    private Acls() { }

    /** The authorizer of a node that knows this image; none where the test has asked for none. */
    @SuppressWarnings("unchecked")
    public static Option<Plugin<Authorizer>> plugin(Map<String, Object> configs, String clusterId,
            Supplier<MetadataImage> image) {
        if (String.valueOf(configs.getOrDefault("authorizer.class.name", "")).isEmpty()) {
            return Option.empty();
        }
        Authorizer authorizer = StandIns.of(Authorizer.class, Map.of(
            "acls", call -> matching(image.get(), call.getArgument(0)),
            "aclCount", call -> image.get().acls().acls().size(),
            "createAcls", call -> create(Observer.of(clusterId), call.getArgument(1)),
            "deleteAcls", call -> delete(Observer.of(clusterId), call.getArgument(1))));
        return Option.apply(StandIns.of(Plugin.class, Map.of("get", call -> authorizer)));
    }

    private static Iterable<AclBinding> matching(MetadataImage image, AclBindingFilter filter) {
        return image.acls().acls().values().stream().map(StandardAcl::toBinding).filter(filter::matches).toList();
    }

    private static List<CompletableFuture<AclCreateResult>> create(Observer observer, List<AclBinding> bindings) {
        CreateAclsRequestData asked = new CreateAclsRequestData();
        asked.setCreations(bindings.stream().map(CreateAclsRequest::aclCreation).toList());
        CreateAclsResponse answer = (CreateAclsResponse) observer.askLeader(
            new CreateAclsRequest.Builder(asked).build((short) 3));
        return answer.results().stream().map(result -> CompletableFuture.completedFuture(
            result.errorCode() == 0 ? AclCreateResult.SUCCESS
                : new AclCreateResult(exception(result.errorCode(), result.errorMessage())))).toList();
    }

    private static List<CompletableFuture<AclDeleteResult>> delete(Observer observer,
            List<AclBindingFilter> filters) {
        DeleteAclsRequestData asked = new DeleteAclsRequestData();
        asked.setFilters(filters.stream().map(DeleteAclsRequest::deleteAclsFilter).toList());
        DeleteAclsResponse answer = (DeleteAclsResponse) observer.askLeader(
            new DeleteAclsRequest.Builder(asked).build((short) 3));
        List<CompletableFuture<AclDeleteResult>> results = new ArrayList<>();
        for (var result : answer.filterResults()) {
            results.add(CompletableFuture.completedFuture(result.errorCode() != 0
                ? new AclDeleteResult(exception(result.errorCode(), result.errorMessage()))
                : new AclDeleteResult(result.matchingAcls().stream().map(DeleteAclsResponse::aclBinding)
                    .map(AclDeleteResult.AclBindingDeleteResult::new).toList())));
        }
        return results;
    }

    private static ApiException exception(short code, String message) {
        return Errors.forCode(code).exception(message);
    }
}
