package fencepost;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CopyOnWriteArraySet;

/**
 * Follows the metadata log of a cluster as a consumer of the controllers' Fetch would, and keeps an
 * image of what was committed, one for each batch, under the offset of the batch's last record.
 */
public final class Observer implements Runnable {
    private static final Map<String, Observer> OF_CLUSTER = new ConcurrentHashMap<>();
    private static final Uuid METADATA_TOPIC_ID = Uuid.METADATA_TOPIC_ID;
    private static final short VERSION = 13;
    private static final int WAIT_MS = 500;
    private static final int IMAGES_MAX = 20_000;
    private static final Set<MetadataRecordType> WITHOUT_EFFECT = EnumSet.of(
        MetadataRecordType.BEGIN_TRANSACTION_RECORD, MetadataRecordType.END_TRANSACTION_RECORD,
        MetadataRecordType.ABORT_TRANSACTION_RECORD, MetadataRecordType.NO_OP_RECORD);

    private final Set<InetSocketAddress> controllers = new CopyOnWriteArraySet<>();
    private final NavigableMap<Long, MetadataImage> images = new ConcurrentSkipListMap<>();
    private Thread thread;
    private int users;
    private long next;
    private int lastEpoch;
    private volatile int leaderEpoch;
    private int correlation;
    private volatile long committed = -1;
    private volatile int leader = -1;

    /** The observer of this cluster. */
    public static Observer of(String clusterId) {
        return OF_CLUSTER.computeIfAbsent(clusterId, id -> new Observer());
    }

    /** A node runs from now on; a controller with its address. */
    public synchronized void join(InetSocketAddress controller) {
        if (controller != null) {
            controllers.add(controller);
        }
        users++;
        if (thread == null) {
            thread = new Thread(this, "junit-fencepost-observer");
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** A node runs no more. */
    public synchronized void leave() {
        if (--users == 0 && thread != null) {
            thread.interrupt();
            thread = null;
        }
    }

    /** The newest image whose last offset is not above this one. */
    public MetadataImage image(long offset) {
        Map.Entry<Long, MetadataImage> entry = images.floorEntry(offset);
        return entry == null ? MetadataImage.EMPTY : entry.getValue();
    }

    /** The offset of the last record that is committed, as far as it is known here. */
    public long committed() {
        return committed;
    }

    /** The leader of the quorum, as it was last heard; -1 if of none. */
    public int leader() {
        return leader;
    }

    /** The end of the log as the leader has it now. */
    public long end() {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (System.nanoTime() < deadline) {
            for (InetSocketAddress controller : controllers) {
                try (Socket socket = open(controller)) {
                    FetchResponseData.PartitionData answer = fetch(socket, committed + 1, lastEpoch, 0);
                    if (answer.errorCode() == 0 && answer.highWatermark() >= 0) {
                        return answer.highWatermark();
                    }
                } catch (IOException error) {
                    continue;  // another may lead
                }
            }
            pause();
        }
        throw new IllegalStateException("no controller tells where the metadata log ends");
    }

    /** What the controller that leads answers. */
    public AbstractResponse askLeader(AbstractRequest request) {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (System.nanoTime() < deadline) {
            for (InetSocketAddress controller : controllers) {
                try (Socket socket = open(controller)) {
                    AbstractResponse answer = ask(socket, request);
                    if (!answer.errorCounts().containsKey(Errors.NOT_CONTROLLER)) {
                        return answer;
                    }
                } catch (IOException error) {
                    continue;  // another may lead
                }
            }
            pause();
        }
        throw new IllegalStateException("no controller answers " + request.apiKey());
    }

    @Override
    public void run() {
        Thread me = Thread.currentThread();
        while (!me.isInterrupted()) {
            for (InetSocketAddress controller : controllers) {
                try (Socket socket = open(controller)) {
                    while (!me.isInterrupted() && follow(fetch(socket, next, lastEpoch, WAIT_MS))) {
                        continue;
                    }
                } catch (IOException error) {
                    continue;  // it is down, or not up yet
                }
            }
            pause();
        }
    }

    private static void pause() {
        try {
            Thread.sleep(50);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private boolean follow(FetchResponseData.PartitionData answer) throws IOException {
        if (answer.errorCode() != Errors.NONE.code()) {
            return false;
        }
        if (answer.snapshotId().endOffset() >= 0) {
            throw new IllegalStateException("the metadata log begins with a snapshot");
        }
        if (answer.divergingEpoch().endOffset() >= 0) {
            next = 0;
            lastEpoch = 0;
            images.clear();
            return true;
        }
        for (RecordBatch batch : ((Records) answer.records()).batches()) {
            if (batch.lastOffset() >= answer.highWatermark()) {
                break;
            }
            if (!batch.isControlBatch()) {
                replay(batch);
            }
            next = batch.lastOffset() + 1;
            lastEpoch = batch.partitionLeaderEpoch();
            committed = batch.lastOffset();
        }
        return true;
    }

    private void replay(RecordBatch batch) {
        MetadataImage before = images.isEmpty() ? MetadataImage.EMPTY : images.lastEntry().getValue();
        MetadataDelta delta = new MetadataDelta.Builder().setImage(before).build();
        for (Record record : batch) {
            ByteBuffer value = record.value();
            ApiMessageAndVersion message =
                MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(value), value.remaining());
            if (!WITHOUT_EFFECT.contains(MetadataRecordType.fromId(message.message().apiKey()))) {
                delta.replay(message.message());
            }
        }
        images.put(batch.lastOffset(), delta.apply(new MetadataProvenance(
            batch.lastOffset(), batch.partitionLeaderEpoch(), batch.maxTimestamp(), true)));
        if (images.size() > IMAGES_MAX) {
            images.pollFirstEntry();
        }
    }

    private static Socket open(InetSocketAddress controller) throws IOException {
        Socket socket = new Socket();
        socket.setTcpNoDelay(true);
        socket.setSoTimeout(10_000);
        socket.connect(new InetSocketAddress(controller.getHostString(), controller.getPort()), 2_000);
        return socket;
    }

    private FetchResponseData.PartitionData fetch(Socket socket, long offset, int epoch, int waitMs)
            throws IOException {
        FetchRequestData data = new FetchRequestData().setReplicaId(-1).setMaxWaitMs(waitMs)
            .setMinBytes(1).setMaxBytes(8 << 20)
            .setTopics(List.of(new FetchRequestData.FetchTopic().setTopicId(METADATA_TOPIC_ID)
                .setTopic("__cluster_metadata").setPartitions(List.of(
                    new FetchRequestData.FetchPartition().setPartition(0).setFetchOffset(offset)
                        .setCurrentLeaderEpoch(leaderEpoch).setLastFetchedEpoch(epoch).setLogStartOffset(-1)
                        .setPartitionMaxBytes(8 << 20)))));
        FetchResponse response = (FetchResponse) ask(socket, new FetchRequest(data, VERSION));
        List<FetchResponseData.FetchableTopicResponse> topics = response.data().responses();
        if (topics.isEmpty()) {
            throw new IOException("Fetch of the metadata log: error " + response.data().errorCode());
        }
        FetchResponseData.PartitionData partition = topics.get(0).partitions().get(0);
        if (partition.currentLeader().leaderId() >= 0) {
            leader = partition.currentLeader().leaderId();
            leaderEpoch = partition.currentLeader().leaderEpoch();
        }
        return partition;
    }

    private AbstractResponse ask(Socket socket, AbstractRequest asked) throws IOException {
        RequestHeader header = new RequestHeader(asked.apiKey(), asked.version(), "observer", correlation++);
        ByteBuffer request = asked.serializeWithHeader(header);
        DataOutputStream out = new DataOutputStream(socket.getOutputStream());
        byte[] bytes = new byte[request.remaining()];
        request.get(bytes);
        out.write(ByteBuffer.allocate(4 + bytes.length).putInt(bytes.length).put(bytes).array());
        DataInputStream in = new DataInputStream(socket.getInputStream());
        byte[] answer = new byte[in.readInt()];
        in.readFully(answer);
        return AbstractResponse.parseResponse(ByteBuffer.wrap(answer), header);
    }
}
