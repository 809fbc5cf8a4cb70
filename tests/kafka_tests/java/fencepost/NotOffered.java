package fencepost;

/** A test asked for a node with something that Fencepost does not offer. */
public final class NotOffered extends Error {
    public NotOffered(String what) {
        super(what);
    }
}
