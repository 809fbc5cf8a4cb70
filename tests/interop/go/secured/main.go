// Secured writes a record by franz-go to a secured listener, reads it back and prints "read VALUE".
//
// Arguments: bootstrap servers, topic, value, the file of the authority's certificate (or "none" for
// SASL_PLAINTEXT), and a login:
// "PLAIN USER PASSWORD", "SCRAM-SHA-256 USER PASSWORD", "SCRAM-SHA-512 USER PASSWORD",
// "OAUTHBEARER TOKEN" or "certificate FILE". It prints "error TEXT" and exits with 1 where it is
// refused.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func check(err error) {
	if err == nil {
		return
	}
	var told *kerr.Error
	if errors.As(err, &told) {
		fmt.Println("error", told.Message)
	}
	fmt.Println("error", err)
	os.Exit(1)
}

func mechanism(words []string) sasl.Mechanism {
	switch words[0] {
	case "PLAIN":
		return plain.Auth{User: words[1], Pass: words[2]}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: words[1], Pass: words[2]}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: words[1], Pass: words[2]}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: words[1]}.AsMechanism()
	}
	return nil
}

func main() {
	servers, topic, value, authority, login := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5:]
	secured := &tls.Config{RootCAs: x509.NewCertPool()}
	options := []kgo.Opt{
		kgo.SeedBrokers(servers),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RequestRetries(2),
		kgo.RecordRetries(2),
	}
	if authority != "none" {
		pem, err := os.ReadFile(authority)
		check(err)
		secured.RootCAs.AppendCertsFromPEM(pem)
		options = append(options, kgo.DialTLSConfig(secured))
	}
	if login[0] == "certificate" {
		certificate, err := tls.LoadX509KeyPair(login[1], login[1])
		check(err)
		secured.Certificates = []tls.Certificate{certificate}
	} else {
		options = append(options, kgo.SASL(mechanism(login)))
	}
	client, err := kgo.NewClient(options...)
	check(err)
	defer client.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	check(client.Ping(ctx))
	check(client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr())
	for {
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		for _, record := range fetches.Records() {
			if string(record.Value) == value {
				fmt.Println("read", value)
				return
			}
		}
	}
}
