package fencepost;

/** A test asked for an object inside Apache Kafka's process, which a Fencepost node does not have. */
public final class NeedsInternals extends Error {
    public NeedsInternals(String what) {
        super(what);
    }
}
