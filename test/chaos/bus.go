package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"patchbay/test/built"
)

// busServer is a NATS server of a cluster that can be stopped and restarted.
type busServer struct {
	address string // for clients
	options server.Options
	running *server.Server
}

// startBus starts the cluster.
func (t *cluster) startBus() error {
	var routes []*url.URL
	for i := range t.bus {
		clients, err := built.FreeAddress()
		if err != nil {
			return err
		}
		cluster, err := built.FreeAddress()
		if err != nil {
			return err
		}
		routes = append(routes, &url.URL{Scheme: "nats", Host: cluster})
		b := &busServer{address: clients}
		b.options = server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: portOf(clients), NoLog: true, NoSigs: true,
			// Clients must not learn of other servers, or they would bypass their proxies.
			Cluster: server.ClusterOpts{Name: "chaos", Host: "127.0.0.1", Port: portOf(cluster), NoAdvertise: true},
		}
		t.bus[i] = b
	}
	for _, b := range t.bus {
		b.options.Routes = routes
		if err := b.start(); err != nil {
			return err
		}
	}
	return nil
}

func portOf(address string) int {
	_, port, _ := strings.Cut(address, ":")
	n, _ := strconv.Atoi(port) //nolint:errcheck // a valid port, made here
	return n
}

func (b *busServer) start() error {
	o := b.options // the server changes them
	s, err := server.NewServer(&o)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		return errors.New("a NATS server did not get ready")
	}
	b.running = s
	return nil
}

func (b *busServer) stop() {
	if b.running != nil {
		b.running.Shutdown()
		b.running.WaitForShutdown()
		b.running = nil
	}
}
