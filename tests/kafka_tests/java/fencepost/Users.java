package fencepost;

import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.common.security.authenticator.CredentialCache;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.ScramCredentialData;
import org.apache.kafka.security.CredentialProvider;

import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** Users of SCRAM, as the metadata of a broker has them: tests wait until one is there. */
public final class Users {
    private Users() { }

    public static CredentialProvider of(Supplier<MetadataImage> image) {
        CredentialProvider provider = new CredentialProvider(List.of(), new DelegationTokenCache(List.of()));
        try {
            Field cache = CredentialProvider.class.getField("credentialCache");
            cache.setAccessible(true);
            cache.set(provider, new Cache(image));
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
        return provider;
    }

    private static final class Cache extends CredentialCache {
        private final Supplier<MetadataImage> image;

        Cache(Supplier<MetadataImage> image) {
            this.image = image;
        }

        @Override
        public <C> CredentialCache.Cache<C> cache(String mechanism, Class<C> type) {
            return new CredentialCache.Cache<>(type) {
                @Override
                public C get(String user) {
                    ScramCredentialData found = image.get().scram().mechanisms()
                        .getOrDefault(ScramMechanism.fromMechanismName(mechanism), Map.of()).get(user);
                    ScramCredential credential = found == null ? null : found.toCredential();
                    return type.cast(credential);
                }
            };
        }
    }
}
