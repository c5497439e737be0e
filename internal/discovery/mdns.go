package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pion/mdns/v2"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"patchbay/internal/netx"
)

const (
	// browseTime is how long answers are awaited: responders wait up to 120 ms (RFC 6762 section
	// 6), and wireless networks lose the first question now and then, which is repeated after a
	// second.
	browseTime = 1300 * time.Millisecond
	// maxServices limits what is kept of a network.
	maxServices = 64
	// maxSameName is the number of installations that may share a name in one network.
	maxSameName = 9
	// addressInterval is how often the addresses of this machine are compared: networks come and
	// go.
	addressInterval = 30 * time.Second
)

// Service types in DNS-SD.
const (
	ServiceWyoming = "_wyoming._tcp"     // Home Assistant, homeassistant/components/wyoming/manifest.json
	ServiceGateway = "_openclaw-gw._tcp" // OpenClaw 2026.9.6, docs/gateway/bonjour.md
	serviceHTTP    = "_http._tcp"        // RFC 6763 section 4.1.2
)

// Service is a service that is announced in the network.
type Service struct {
	Type string // one of the types that were asked for
	Name string // for people
	// Address is host and port. The host is a private or link-local address, IPv4 if there is one.
	Address string
	// Text are the entries of its TXT record, with keys in lower case.
	Text map[string]string
}

// Browse returns the services of some types that are announced in the network, sorted by type, name
// and address. Addresses that are not private are left out. It takes 1.3 seconds.
func Browse(ctx context.Context, types ...string) ([]Service, error) {
	return browse(ctx, isLocal, types)
}

// isLocal reports whether an address is one of a local network.
func isLocal(a netip.Addr) bool { return a.IsPrivate() || a.IsLinkLocalUnicast() }

// browse is Browse with the addresses that are taken.
func browse(ctx context.Context, takes func(netip.Addr) bool, types []string,
	o ...mdns.ServerOption) ([]Service, error) {
	c, err := openNetwork(o...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, browseTime)
	defer cancel()
	var mu sync.Mutex
	found := map[string]Service{}
	c.OnServiceDiscovered(func(e mdns.ServiceEvent) {
		s := serviceOf(e, takes)
		mu.Lock()
		defer mu.Unlock()
		key := s.Type + " " + s.Name
		if _, known := found[key]; s.Address == "" || !known && len(found) >= maxServices {
			return
		}
		// One address of each is enough, and everybody can use IPv4.
		if was := found[key]; was.Address == "" || strings.HasPrefix(was.Address, "[") {
			found[key] = s
		}
	})
	for _, t := range types {
		if err := c.Browse(ctx, t); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	<-ctx.Done()
	err = c.Close()
	mu.Lock()
	defer mu.Unlock()
	out := make([]Service, 0, len(found))
	for _, s := range found {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Service) int {
		return strings.Compare(a.Type+"\x00"+a.Name+"\x00"+a.Address, b.Type+"\x00"+b.Name+"\x00"+b.Address)
	})
	return out, err
}

// serviceOf returns an announced service; without an address if it has none in this network.
func serviceOf(e mdns.ServiceEvent, takes func(netip.Addr) bool) Service {
	s := Service{Type: e.Instance.Service, Name: cleanName(e.Instance.Instance), Text: map[string]string{}}
	for _, t := range e.Instance.Text {
		s.Text[strings.ToLower(cleanName(t.Key))] = cleanName(string(t.Value))
	}
	// An address with a zone, such as fe80::1%eth0, has no place in a URL (RFC 9844).
	a := e.Addr.Unmap()
	if e.Instance.Port != 0 && a.Zone() == "" && takes(a) {
		s.Address = netip.AddrPortFrom(a, e.Instance.Port).String()
	}
	return s
}

// Announcement is what is announced of this server.
type Announcement struct {
	// Name is the host name without ".local". If another host of the network has it, a number is
	// added.
	Name string
	Port uint16
	TLS  bool
	Log  *slog.Logger
	// Changed is called with the name that is announced, such as patchbay.local, and with an empty
	// one when it is not any more. It may be nil.
	Changed func(host string)

	network []mdns.ServerOption // for tests
}

// Announce announces this server in the network until ctx ends. When the network cannot be used, or
// its addresses have changed, it begins anew.
func Announce(ctx context.Context, a Announcement) {
	if a.Changed == nil {
		a.Changed = func(string) {}
	}
	wait := netx.Backoff{First: time.Second, Max: 5 * time.Minute}
	for ctx.Err() == nil {
		began := machineAddresses()
		c, host, err := a.open(ctx)
		if err != nil {
			if ctx.Err() == nil {
				a.Log.Debug("not announced in the network", "error", err)
			}
			netx.Wait(ctx, wait.Next()) //nolint:errcheck // the loop ends then
			continue
		}
		wait.Reset()
		a.Changed(host)
		a.Log.Info("announced in the network", "host", host, "port", a.Port)
		for netx.Wait(ctx, addressInterval) == nil && slices.Equal(began, machineAddresses()) {
		}
		a.Changed("")
		if err := c.Close(); err != nil {
			a.Log.Debug("the announcement did not end well", "error", err)
		}
	}
}

// open begins to announce, under the first name that nobody else has.
func (a *Announcement) open(ctx context.Context) (*mdns.Conn, string, error) {
	label, err := a.freeLabel(ctx)
	if err != nil {
		return nil, "", err
	}
	host := label + ".local"
	scheme := "http"
	if a.TLS {
		scheme = "https"
	}
	c, err := openNetwork(append(a.network, mdns.WithLocalNames(host), mdns.WithService(mdns.ServiceInstance{
		Instance: "Patchbay (" + label + ")", Service: serviceHTTP, Host: host + ".", Port: a.Port,
		Text: []mdns.TXTEntry{mdns.NewTXTString("path", "/"), mdns.NewTXTString("scheme", scheme)},
	}))...)
	return c, host, err
}

// freeLabel returns the name, with a number if other hosts have it.
func (a *Announcement) freeLabel(ctx context.Context) (string, error) {
	c, err := openNetwork(a.network...)
	if err != nil {
		return "", err
	}
	defer c.Close() //nolint:errcheck // nothing was announced
	own := machineAddresses()
	for n := 1; n <= maxSameName; n++ {
		label := a.Name
		if n > 1 {
			label += "-" + strconv.Itoa(n)
		}
		asking, cancel := context.WithTimeout(ctx, browseTime)
		_, from, err := c.QueryAddr(asking, label+".local")
		cancel()
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil || slices.Contains(own, from.WithZone("").Unmap()): // nobody, or this machine
			return label, nil
		}
	}
	return "", fmt.Errorf("%d hosts of this network are called %s", maxSameName, a.Name)
}

// openNetwork opens the port of mDNS, which programs of one machine share.
func openNetwork(o ...mdns.ServerOption) (*mdns.Conn, error) {
	four, err := listenMulticast("udp4", mdns.DefaultAddressIPv4)
	if err != nil {
		return nil, err
	}
	six, err := listenMulticast("udp6", mdns.DefaultAddressIPv6)
	if err != nil {
		six = nil // this machine may have no IPv6
	}
	var v6 *ipv6.PacketConn
	if six != nil {
		v6 = ipv6.NewPacketConn(six)
	}
	c, err := mdns.NewServer(ipv4.NewPacketConn(four), v6, o...)
	if err != nil {
		four.Close()
		if six != nil {
			six.Close()
		}
		return nil, fmt.Errorf("mdns: %w", err)
	}
	return c, nil
}

func listenMulticast(network, address string) (*net.UDPConn, error) {
	to, err := net.ResolveUDPAddr(network, address)
	if err != nil {
		return nil, err
	}
	return net.ListenUDP(network, to)
}

// machineAddresses returns the addresses of this machine's interfaces, sorted.
func machineAddresses() (out []netip.Addr) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Addr().Unmap())
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// IsOwn reports whether host is an address of this machine.
func IsOwn(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && slices.Contains(machineAddresses(), a.WithZone("").Unmap())
}

// PrivateAddresses returns the private IPv4 addresses of this machine, as a person types them.
func PrivateAddresses() (out []string) {
	for _, a := range machineAddresses() {
		if a.Is4() && a.IsPrivate() {
			out = append(out, a.String())
		}
	}
	return out
}
