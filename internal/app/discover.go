package app

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/discovery"
)

// describeLimit is how long a Wyoming server may take to describe itself: it loads nothing for
// that.
const describeLimit = 3 * time.Second

// discoverer finds what could be plugged in.
type discoverer struct {
	voice *speech
	log   *slog.Logger
	// models, gateways and wyoming are where programs are looked for on this machine, as host:port.
	models, gateways, wyoming []string
}

// newDiscoverer returns a discoverer. own is the address of this server, which is left out; it
// may be nil.
func newDiscoverer(voice *speech, own net.Addr, log *slog.Logger) *discoverer {
	return &discoverer{voice: voice, log: log, models: others(discovery.ModelPlaces, own),
		gateways: others(discovery.GatewayPlaces, own), wyoming: wyomingHere}
}

// look finds what runs on this machine and what is announced in its network.
func (s *discoverer) look(ctx context.Context) []control.Discovery {
	network := make(chan []control.Discovery, 1)
	go func() { network <- s.inNetwork(ctx) }()
	found := s.onMachine(ctx)
	for _, d := range <-network {
		if !isFound(found, d) {
			found = append(found, d)
		}
	}
	return found
}

// onMachine finds what runs on this machine.
func (s *discoverer) onMachine(ctx context.Context) (found []control.Discovery) {
	wyoming := make(chan []control.Discovery, 1)
	go func() { wyoming <- s.describeWyoming(ctx, "", s.wyoming...) }()
	gateways := make(chan []string, 1)
	go func() { gateways <- discovery.Gateways(ctx, s.gateways) }()
	for _, m := range discovery.Models(ctx, s.models) {
		found = append(found, control.Discovery{Kind: control.FoundModel, Name: m.Name, Address: m.BaseURL,
			Models: m.Models})
	}
	for _, address := range <-gateways {
		found = append(found, control.Discovery{Kind: control.FoundOpenClaw, Name: "OpenClaw", Address: address})
	}
	return append(found, <-wyoming...)
}

// inNetwork finds what is announced in the network.
func (s *discoverer) inNetwork(ctx context.Context) (found []control.Discovery) {
	services, err := discovery.Browse(ctx, discovery.ServiceWyoming, discovery.ServiceGateway)
	if err != nil {
		s.log.DebugContext(ctx, "the network was not searched", "error", err)
	}
	var wyoming []discovery.Service
	for _, x := range services {
		switch x.Type {
		case discovery.ServiceGateway:
			scheme := "ws://"
			if x.Text["gatewaytls"] == "1" {
				scheme = "wss://"
			}
			found = append(found, control.Discovery{Kind: control.FoundOpenClaw, Name: x.Name,
				Address: scheme + x.Address, Network: true})
		case discovery.ServiceWyoming:
			wyoming = append(wyoming, x)
		}
	}
	// At once, since each that is silent takes all of its time.
	described := make([][]control.Discovery, min(len(wyoming), maxWyoming))
	var asking sync.WaitGroup
	for i := range described {
		asking.Go(func() { described[i] = s.describeWyoming(ctx, wyoming[i].Name, wyoming[i].Address) })
	}
	asking.Wait()
	return append(found, slices.Concat(described...)...)
}

// describeWyoming asks Wyoming servers what they can do. With a name, they are in the network.
func (s *discoverer) describeWyoming(ctx context.Context, name string, places ...string) (found []control.Discovery) {
	for _, place := range places {
		asking, cancel := context.WithTimeout(ctx, describeLimit)
		servers, err := s.voice.wyoming(asking, []string{place})
		cancel()
		if err != nil {
			continue // nothing there, or something else
		}
		for _, w := range servers {
			d := control.Discovery{Kind: control.FoundWyoming, Name: name, Address: w.Address, Listens: w.Listens,
				Speaks: w.Speaks, Network: name != ""}
			if name == "" {
				d.Name = "Wyoming"
			}
			found = append(found, d)
		}
	}
	return found
}

// isFound reports whether d is the same server as one of found on this machine, under another of
// its addresses.
func isFound(found []control.Discovery, d control.Discovery) bool {
	host, port := hostAndPort(d.Address)
	for _, f := range found {
		fHost, fPort := hostAndPort(f.Address)
		if f.Kind == d.Kind && fPort == port && (fHost == host || !f.Network && discovery.IsOwn(host)) {
			return true
		}
	}
	return false
}

func hostAndPort(address string) (host, port string) {
	_, rest, ok := strings.Cut(address, "://")
	if !ok {
		rest = address
	}
	rest, _, _ = strings.Cut(rest, "/")
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		return rest, ""
	}
	return host, port
}

// others returns the places at which this server does not listen.
func others(places []string, own net.Addr) (out []string) {
	mine, _ := own.(*net.TCPAddr)
	for _, p := range places {
		if mine == nil || !strings.HasSuffix(p, ":"+strconv.Itoa(mine.Port)) {
			out = append(out, p)
		}
	}
	return out
}

// announceLocally announces the server in its network, if others can reach it there.
func announceLocally(ctx context.Context, c *config.Config, own net.Addr, log *slog.Logger) error {
	mine, ok := own.(*net.TCPAddr)
	if !ok || c.LocalName == "" || mine.IP.IsLoopback() {
		return nil
	}
	discovery.Announce(ctx, discovery.Announcement{Name: c.LocalName, Port: uint16(mine.Port), //nolint:gosec // a port
		TLS: c.ServesTLS(), Log: log})
	return nil
}
