// Reader is a member of a group by franz-go that says what it has and what it reads.
//
// Arguments: bootstrap servers, group, topic, "classic", "consumer" or "share". It leaves when its
// standard input ends. Lines: "TIME + PARTITION" when it is given one, "TIME - PARTITION" when one is
// about to be taken from it, "TIME r PARTITION OFFSET" for a record, "error TEXT". Times are
// nanoseconds since 1970.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	out  = bufio.NewWriter(os.Stdout)
	lock sync.Mutex
)

func say(format string, values ...any) {
	lock.Lock()
	defer lock.Unlock()
	fmt.Fprintf(out, "%d ", time.Now().UnixNano())
	fmt.Fprintf(out, format+"\n", values...)
	out.Flush()
}

func each(sign string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
		for _, partitions := range topics {
			for _, partition := range partitions {
				say("%s %d", sign, partition)
			}
		}
	}
}

func main() {
	servers, group, topic, protocol := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		for bufio.NewScanner(os.Stdin).Scan() {
		}
		stop()
	}()
	base := context.Background()
	if protocol == "consumer" {
		// The key by which this version is asked to speak KIP-848.
		base = context.WithValue(base, "opt_in_kafka_next_gen_balancer_beta", true)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(servers),
		kgo.WithContext(base),
		kgo.ConsumeTopics(topic),
		kgo.FetchMaxWait(200 * time.Millisecond),
	}
	if protocol == "share" {
		options = append(options, kgo.ShareGroup(group))
	} else {
		lost := each("-")
		options = append(options,
			kgo.ConsumerGroup(group),
			kgo.Balancers(kgo.RangeBalancer()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.BlockRebalanceOnPoll(),
			kgo.AutoCommitMarks(),
			kgo.HeartbeatInterval(300*time.Millisecond),
			kgo.OnPartitionsAssigned(each("+")),
			kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, topics map[string][]int32) {
				if err := client.CommitMarkedOffsets(ctx); err != nil {
					say("error %v", err)
				}
				lost(ctx, client, topics)
			}),
			kgo.OnPartitionsLost(lost),
		)
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		say("error %v", err)
		os.Exit(1)
	}
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		fetches.EachError(func(_ string, _ int32, err error) { say("error %v", err) })
		fetches.EachRecord(func(record *kgo.Record) {
			say("r %d %d", record.Partition, record.Offset)
			if protocol == "share" {
				client.MarkAcks(kgo.AckAccept, record)
			} else {
				client.MarkCommitRecords(record)
			}
		})
		client.AllowRebalance()
	}
	if protocol == "share" {
		if err := client.FlushAcks(context.Background()); err != nil {
			say("error %v", err)
		}
	}
	client.CloseAllowingRebalance()
	say("left")
}
