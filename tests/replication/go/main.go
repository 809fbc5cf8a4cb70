// A read-process-write chain by franz-go, as tests/replication/exactly_once_chain.py has them:
//
//	chain SERVERS GROUP NAME SOURCE TARGET
//
// NAME is the transactional id; with "static-" before it, it is the group instance id, too.
// Every record of SOURCE is written to TARGET in transactions that take along the group's offsets.
// A GroupTransactSession aborts what it must and goes on from what is committed; what it calls
// fatal ends the process, and whoever started it starts it again.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	sessionTimeout     = 6 * time.Second
	transactionTimeout = 10 * time.Second
	turnTimeout        = 40 * time.Second // a turn that takes longer ends the process, with its stacks
	recordsPerTurn     = 40
	bytesPerFetch      = 4_000
)

func open(servers, group, name, source string) (*kgo.GroupTransactSession, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, func() string {
			return time.Now().Format("15:04:05.000 ")
		})),
		kgo.ConsumerGroup(group),
		kgo.SessionTimeout(sessionTimeout),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxPartitionBytes(bytesPerFetch),
		kgo.RequireStableFetchOffsets(),
		kgo.TransactionalID(name),
		kgo.TransactionTimeout(transactionTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if strings.HasPrefix(name, "static-") {
		options = append(options, kgo.InstanceID(name))
	}
	return kgo.NewGroupTransactSession(options...)
}

func turn(ctx context.Context, session *kgo.GroupTransactSession, target string) error {
	patience, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	fetches := session.PollRecords(patience, recordsPerTurn)
	cancel()
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			return fmt.Errorf("fetching %s-%d: %w", failed.Topic, failed.Partition, failed.Err)
		}
	}
	if fetches.NumRecords() == 0 {
		return nil
	}
	if err := session.Begin(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	delivered := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(read *kgo.Record) {
		written := &kgo.Record{Topic: target, Partition: read.Partition, Value: read.Value}
		session.Produce(ctx, written, delivered.Promise())
	})
	err := delivered.Err()
	if err != nil {
		fmt.Fprintf(os.Stderr, "not delivered, so aborting: %v\n", err)
	}
	committed, err := session.End(ctx, kgo.TransactionEndTry(err == nil))
	if err != nil {
		return fmt.Errorf("end: %w", err)
	}
	fmt.Fprintf(os.Stderr, "turn of %d records, committed: %v\n", fetches.NumRecords(), committed)
	return nil
}

func run(servers, group, name, source, target string) error {
	session, err := open(servers, group, name, source)
	if err != nil {
		return err
	}
	// Without this the producer asks for its id when it first writes; until then the transaction
	// of a killed chain stays open, and the group's offsets with it.
	for {
		_, _, err := session.Client().ProducerID(context.Background())
		if err == nil {
			break
		}
		if !kerr.IsRetriable(err) {
			return fmt.Errorf("producer id: %w", err)
		}
	}
	for {
		ctx, cancel := context.WithTimeout(context.Background(), turnTimeout)
		err := turn(ctx, session, target)
		cancel()
		if err != nil {
			return err
		}
	}
}

func main() {
	fmt.Fprintln(os.Stderr, run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]))
	os.Exit(1)
}
