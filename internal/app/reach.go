package app

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"patchbay/internal/certs"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/netx"
	"patchbay/internal/relay/link"
	"patchbay/internal/relay/wire"
	"patchbay/internal/store"
)

// reach is how this server is reached through relays. A nil reach means that it is not.
type reach struct {
	*link.Links
	stop    func()
	running sync.WaitGroup
}

// nameWait is how long the start waits for the name at the relay, which becomes the public address.
// Later it is remembered.
const nameWait = 5 * time.Second

// openReach connects to the configured relays. The connections arrive until Close.
func openReach(b *Base, log *slog.Logger) (*reach, error) {
	c := b.Config.Relay
	if len(c.Servers) == 0 {
		return nil, nil
	}
	codes, err := joinCodes(c.Key)
	if err != nil {
		return nil, err
	}
	proxies, err := config.ParsePrefixes(b.Config.Proxies)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &reach{stop: stop, Links: link.New(link.Options{
		Servers: c.Servers, Codes: codes, Instance: relayInstance(b.Config), Proxies: proxies, Load: b.relayMemory,
		Save: b.saveRelayMemory, Logger: log,
	})}
	r.running.Go(func() { r.Run(ctx) }) //nolint:errcheck // it returns nil
	return r, nil
}

// joinCodes parses join codes, separated by commas.
func joinCodes(text string) (codes []wire.Code, err error) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		code, err := wire.ParseCode(one)
		if err != nil {
			return nil, fmt.Errorf("relay.key: %w", err)
		}
		codes = append(codes, code)
	}
	return codes, nil
}

// relayInstance returns what tells this instance from others of the installation, and is the same
// after a restart.
func relayInstance(c *config.Config) string {
	host, _ := os.Hostname() //nolint:errcheck // the rest has to do
	sum := sha256.Sum256([]byte(host + "\x00" + c.Listen + "\x00" + c.Data + "\x00" + c.Bus.Name))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// publicURL returns the public address of the server: the configured one, or else that of its name
// at a relay, if it is known in time. A name that is not the relay's to give needs somebody to say
// so: the address is the issuer of tokens, and what people are sent to.
func (r *reach) publicURL(ctx context.Context, configured string, log *slog.Logger) string {
	if r == nil || configured != "" {
		return configured
	}
	ctx, cancel := context.WithTimeout(ctx, nameWait)
	defer cancel()
	if r.Await(ctx); len(r.Names()) == 0 {
		log.Warn("no relay has given this server a name yet; public_url is unknown until the next start")
		return ""
	}
	for _, s := range r.Status() {
		if len(s.Names) == 0 {
			continue
		}
		if mayName(s.Server, s.Names[0]) {
			return "https://" + s.Names[0]
		}
		log.Warn("the relay gives this server a name that is not below its own; if it is right, set public_url",
			"relay", s.Server, "name", s.Names[0])
	}
	return ""
}

// mayName reports whether a name is below that of a relay. One that is configured by its address
// has no name to compare.
func mayName(server, name string) bool {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		host = server
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return strings.HasSuffix(name, "."+wire.Canonical(host))
}

// https returns the listener of the connections that arrive for the web server.
func (r *reach) https(l *perAddressListener) net.Listener {
	return l.with(r.HTTPS)
}

// identity returns where the certificate for clients at relays comes from: that of the server, or
// else m. It is nil if there is none.
func (r *reach) identity(own identityTLS, m *certs.Manager) identityTLS {
	if own != nil || m == nil {
		return own
	}
	return m
}

// nameInterval is how often the names at relays are looked at: a relay's operator may add some.
const nameInterval = time.Second

// maxNames bounds the names that relays can ever make this process order certificates for:
// authorities limit the orders of an account.
const maxNames = 64

// addNew passes names on that are not in seen, while that has room.
func addNew(seen map[string]bool, names []string, add func(string)) {
	for _, name := range names {
		if !seen[name] && len(seen) < maxNames {
			seen[name] = true
			add(name)
		}
	}
}

// order has certificates for all names at relays until ctx ends, and then closes the connections to
// the relays. Without a manager, certificates are in files.
func (r *reach) order(ctx context.Context, m *certs.Manager) error {
	defer r.Close()
	seen := map[string]bool{}
	for {
		if m != nil {
			addNew(seen, r.Names(), m.Add)
		}
		if netx.Wait(ctx, nameInterval) != nil {
			return nil
		}
	}
}

// mqtt returns the listener of the connections that arrive for the MQTT server of boards; nil:
// there are none.
func (r *reach) mqtt() net.Listener {
	if r == nil {
		return nil
	}
	return r.MQTT
}

// status returns the state of the connections to relays.
func (r *reach) status() (list []control.RelayLink) {
	if r == nil {
		return nil
	}
	for _, s := range r.Status() {
		one := control.RelayLink{Relay: s.Server, Names: s.Names, Connected: !s.Since.IsZero(), Since: s.Since,
			RoundTrip: float64(s.RoundTrip.Microseconds()) / 1000, Streams: s.Streams, Failed: s.Failed}
		if s.Problem != nil {
			one.Cause = Explain(s.Problem)
		}
		list = append(list, one)
	}
	return list
}

// Close ends the connections to the relays: clients that come wait there until the server is back,
// or go to another instance. Those that have arrived go on.
func (r *reach) Close() {
	if r == nil {
		return
	}
	r.stop()
	r.running.Wait()
	r.MQTT.Close() //nolint:errcheck // it returns nil
}

// relayMemory is what is stored of a relay.
type relayMemory struct {
	Key   string   `json:"key"` // the seed of the Ed25519 key as base64, sealed
	Pin   string   `json:"pin,omitempty"`
	Names []string `json:"names,omitempty"`
}

// relayMemory returns what is remembered of a relay. All instances have the same key there.
func (b *Base) relayMemory(ctx context.Context, server string) (m link.Memory, err error) {
	kept, err := b.Store.RelayLinks.Get(ctx, server)
	if errors.Is(err, store.ErrNotFound) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return m, err
		}
		text, err := b.packRelayMemory(link.Memory{Key: key})
		if err != nil {
			return m, err
		}
		if kept, err = b.Store.RelayLinks.Begin(ctx, server, text); err != nil {
			return m, err
		}
	} else if err != nil {
		return m, err
	}
	var stored relayMemory
	if err := json.Unmarshal([]byte(kept), &stored); err != nil {
		return m, err
	}
	text, err := b.Box.Open(stored.Key)
	if err != nil {
		return m, err
	}
	seed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(seed) != ed25519.SeedSize {
		return m, errors.New("the key for the relay is damaged")
	}
	return link.Memory{Key: ed25519.NewKeyFromSeed(seed), Pin: stored.Pin, Names: stored.Names}, nil
}

func (b *Base) packRelayMemory(m link.Memory) (string, error) {
	text, err := json.Marshal(relayMemory{Key: b.Box.Seal(base64.StdEncoding.EncodeToString(m.Key.Seed())), Pin: m.Pin,
		Names: m.Names})
	return string(text), err
}

func (b *Base) saveRelayMemory(ctx context.Context, server string, m link.Memory) error {
	text, err := b.packRelayMemory(m)
	if err != nil {
		return err
	}
	return b.Store.RelayLinks.Save(ctx, server, text)
}
