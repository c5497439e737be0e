// Package bustest provides a bus for tests with several instances: a cluster of NATS servers in the
// test process.
package bustest

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Cluster starts a cluster of n NATS servers and returns their addresses, separated by commas. The
// servers stop when the test ends.
func Cluster(t testing.TB, n int) string {
	t.Helper()
	servers := make([]*server.Server, n)
	var routes []*url.URL
	for i := range servers {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, Routes: routes,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		if !s.ReadyForConnections(10 * time.Second) {
			t.Fatal("a NATS server did not get ready")
		}
		servers[i] = s
		routes = append(routes, &url.URL{Scheme: "nats", Host: s.ClusterAddr().String()})
	}
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.ClientURL())
	}
	awaitRoutes(t, servers)
	return strings.Join(urls, ",")
}

// awaitRoutes waits until a message from each server reaches all others.
func awaitRoutes(t testing.TB, servers []*server.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for i, from := range servers {
		for j, to := range servers {
			if i == j {
				continue
			}
			a, b := connect(t, from), connect(t, to)
			subject := fmt.Sprintf("ready.%d.%d", i, j)
			sub, err := b.SubscribeSync(subject)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Flush(); err != nil {
				t.Fatal(err)
			}
			for arrived := false; !arrived; {
				if err := a.Publish(subject, nil); err != nil {
					t.Fatal(err)
				}
				try, done := context.WithTimeout(ctx, 50*time.Millisecond)
				_, err := sub.NextMsgWithContext(try)
				done()
				arrived = err == nil
				if ctx.Err() != nil {
					t.Fatal("the NATS servers did not form a cluster")
				}
			}
			a.Close()
			b.Close()
		}
	}
}

func connect(t testing.TB, s *server.Server) *nats.Conn {
	t.Helper()
	c, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	return c
}
