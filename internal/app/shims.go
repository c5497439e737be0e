package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/mcpnode"
	"patchbay/internal/plug/openclaw/shim"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// ShimSettings state which OpenClaw gateway an owner's devices join as nodes, and how. They contain
// a secret.
type ShimSettings struct {
	// URL is the gateway's address, ws:// or wss://.
	URL string `json:"url"`
	// Token is the gateway's shared secret, gateway.auth.token in its settings.
	Token string `json:"token,omitempty" secret:"true" to:"url"`
	// TLSFingerprint is the SHA-256 fingerprint of the only certificate that the gateway may have.
	// Empty means one that an authority has issued that this machine knows.
	TLSFingerprint string `json:"tls_fingerprint,omitempty" to:"url"`
	// Mode is each, if every device is a node, or one, if all of them are one. Empty means each.
	Mode shim.Mode `json:"mode,omitempty"`
	// Title is the name of the node in mode one. Empty means Patchbay.
	Title string `json:"title,omitempty"`
	// Devices are the devices that join, by name, and patterns in which * stands for any text.
	// Empty means all.
	Devices []string `json:"devices,omitempty"`
	// Notices forwards the notices of devices, which wake the gateway's agent.
	Notices bool `json:"notices,omitempty"`
}

const (
	// maxShimDevices bounds the list of devices, which is searched whenever a device changes.
	maxShimDevices = 200
	// maxShimTitle limits the name of a node, in bytes.
	maxShimTitle = 80
)

// Messages about invalid shim settings.
const (
	msgShimURL     = i18n.Message("url is missing: give the address of the gateway, for example ws://127.0.0.1:18789")
	msgShimToken   = i18n.Message("token has a space or a line break at an end; copy it again")
	msgShimMode    = i18n.Message("mode is %q; choose each, if every device is a node, or one, if all of them are one")
	msgShimTitle   = i18n.Message("title has %d bytes; %d are the most")
	msgShimDevices = i18n.Message("devices takes %d patterns; * stands for any text")
)

// Validate returns what is wrong with the settings. The error contains no secret.
func (s *ShimSettings) Validate() error {
	if strings.TrimSpace(s.URL) == "" {
		return msgShimURL.Errorf()
	}
	if _, err := client.ParseURL(s.URL); err != nil {
		return err
	}
	if _, err := client.ParsePin(s.TLSFingerprint, s.URL); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(s.Token) != s.Token:
		return msgShimToken.Errorf()
	case s.Mode != "" && s.Mode != shim.EachDevice && s.Mode != shim.OneNode:
		return msgShimMode.Errorf(s.Mode)
	case len(s.Title) > maxShimTitle:
		return msgShimTitle.Errorf(len(s.Title), maxShimTitle)
	case len(s.Devices) > maxShimDevices:
		return msgShimDevices.Errorf(maxShimDevices)
	}
	for _, p := range s.Devices {
		if err := hub.CheckPattern(p); err != nil {
			return err
		}
	}
	return nil
}

// spec returns the shim specification of an upstream.
func (s *ShimSettings) spec(u store.Upstream, guarded bool) shim.Spec {
	url, _ := client.ParseURL(s.URL) // validated before they were stored
	pin, _ := client.ParsePin(s.TLSFingerprint, s.URL)
	return shim.Spec{
		ID: UpstreamProviderID(u), URL: url, Pin: pin, Token: s.Token, Mode: s.Mode, Title: s.Title,
		Devices: s.Devices, Owner: u.Owner, Notices: s.Notices,
		Untrusted: guarded, Version: u.Version,
	}
}

// shims connects to the gateways that owners have added. One instance at a time joins each, because
// a gateway reaches a node only over its newest connection.
type shims struct {
	manager  *shim.Manager
	leases   store.Leases
	instance string // empty: there are no other instances
	log      *slog.Logger

	cancel context.CancelFunc
	done   chan struct{} // nil: there are no other instances

	mu     sync.Mutex
	wanted []shim.Spec
	mine   map[string]bool
}

const (
	// shimLease is how long a crashed instance blocks a gateway for the others.
	shimLease = 30 * time.Second
	// shimStore is the timeout of reading and writing node keys.
	shimStore = 10 * time.Second
)

func newShims(at deps) *shims {
	kept := nodeKeyStore{at.base}
	s := &shims{leases: at.base.Store.Leases, log: at.log, mine: map[string]bool{}, manager: shim.New(shim.Options{
		Source: devices{at.hub}, Load: kept.load, Save: kept.save, Dial: at.dial, Stats: shim.MachineStats,
		Version: at.base.Version, Logger: at.log, Registerer: at.reg,
	})}
	if at.messages.IsStandalone() {
		return s
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	s.instance, s.done = at.messages.Instance, make(chan struct{})
	go func() {
		defer close(s.done)
		s.keepLeases(ctx)
	}()
	return s
}

// set replaces the gateways to join.
func (s *shims) set(specs []shim.Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = specs
	s.apply()
}

// apply joins the gateways whose lease this instance holds. The caller holds mu.
func (s *shims) apply() {
	some := s.wanted
	if s.instance != "" {
		some = nil
		for _, spec := range s.wanted {
			if s.mine[spec.ID] {
				some = append(some, spec)
			}
		}
	}
	s.manager.Set(some)
}

// keepLeases takes and renews the leases of gateways until ctx ends.
func (s *shims) keepLeases(ctx context.Context) {
	tick := time.NewTicker(shimLease / 6)
	defer tick.Stop()
	for {
		s.mu.Lock()
		wanted := s.wanted
		s.mu.Unlock()
		mine := make(map[string]bool, len(wanted))
		for _, spec := range wanted {
			now := time.Now()
			ok, err := s.leases.Take(ctx, "shim:"+spec.ID, s.instance, now, now.Add(shimLease))
			if err != nil && ctx.Err() == nil {
				s.log.Warn("openclaw: whether this instance may join a gateway could not be found out",
					"gateway", spec.ID, "error", err)
			}
			mine[spec.ID] = ok
		}
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		s.mine = mine
		s.apply()
		s.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// health returns the state of the nodes at a gateway.
func (s *shims) health(id string) control.UpstreamHealth {
	nodes, mine := s.manager.Status(id)
	if !mine {
		return control.UpstreamHealth{State: control.UpstreamElsewhere}
	}
	h := control.UpstreamHealth{State: control.UpstreamReady, Server: "OpenClaw"}
	for _, n := range nodes {
		h.Tools += n.Tools
		h.Cut = h.Cut || n.Omitted > 0
		h.ServerVersion = cmp.Or(h.ServerVersion, n.Gateway)
		h.Nodes = append(h.Nodes, control.ShimNode{
			Device: n.Device, Name: n.Name, Node: n.Node, State: string(n.State), Since: n.Since, Tools: n.Tools,
			Taken: n.Accepted, Cut: n.Omitted,
			NextTry: n.NextTry, Message: n.Message, Command: n.Command,
			Code: string(n.Code), Certificate: refusedCertificate(n.Certificate),
		})
		if n.State != shim.Ready && h.State == control.UpstreamReady { // the first node that is not ready
			h.State, h.Since, h.NextTry, h.Problem = shimState(n.State), n.Since, n.NextTry, n.Message
		}
	}
	return h
}

// shimState maps the state of a node to that of its upstream.
func shimState(s shim.State) string {
	switch s {
	case shim.Pairing, shim.Approval:
		return control.UpstreamUnapproved
	case shim.Untrusted, shim.Changed:
		return control.UpstreamFailed // a person has to act
	}
	return string(s)
}

// Close disconnects from all gateways and releases their leases.
func (s *shims) Close() {
	if s.done != nil {
		s.cancel()
		<-s.done
	}
	s.manager.Close()
	ctx, cancel := context.WithTimeout(context.Background(), shimStore)
	defer cancel()
	for id, mine := range s.mine {
		if mine {
			s.leases.Release(ctx, "shim:"+id, s.instance) //nolint:errcheck // it expires
		}
	}
}

// nodeKeyStore stores the keys of nodes, sealed.
type nodeKeyStore struct{ base *Base }

// upstreamOf returns the number of a shim's upstream.
func upstreamOf(spec string) (int64, error) {
	return strconv.ParseInt(strings.TrimPrefix(spec, "upstream:"), 10, 64)
}

func (k nodeKeyStore) load(ctx context.Context, spec, device string) (kept shim.NodeSecret, err error) {
	number, err := upstreamOf(spec)
	if err != nil {
		return kept, err
	}
	sealed, err := k.base.Store.ShimNodes.Get(ctx, number, device)
	if errors.Is(err, store.ErrNotFound) {
		return kept, nil
	}
	if err != nil {
		return kept, err
	}
	plain, err := k.base.Box.Open(sealed)
	if err != nil {
		return kept, err
	}
	return kept, json.Unmarshal([]byte(plain), &kept)
}

func (k nodeKeyStore) save(ctx context.Context, spec, device string, kept shim.NodeSecret) error {
	number, err := upstreamOf(spec)
	if err != nil {
		return err
	}
	plain, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return k.base.Store.ShimNodes.Save(ctx, number, device, k.base.Box.Seal(string(plain)))
}

// devices provides the voice boards of an owner to gateways, under the rules for all programs of
// that owner.
type devices struct{ hub *hub.Hub }

// Devices implements [shim.Source].
func (d devices) Devices(spec shim.Spec) ([]shim.Device, error) {
	may, err := d.hub.View(spec.Owner, "")
	if err != nil {
		return nil, err
	}
	var out []shim.Device
	at := map[string]int{}
	for _, o := range d.hub.Providers(spec.Owner) {
		if o.Kind == xiaozhi.Kind && o.Owner == spec.Owner {
			at[o.ID] = len(out)
			out = append(out, shim.Device{ID: o.ID, Slug: o.Slug, Title: o.Title, Session: true})
		}
	}
	for _, t := range may.Tools {
		if i, ok := at[t.Provider().ID]; ok {
			out[i].Tools = append(out[i].Tools, *t.Tool)
			if slices.Contains(mcpnode.MediaTools, t.Tool.Name) {
				out[i].Media = append(out[i].Media, t.Tool.Name)
			}
		}
	}
	return out, nil
}

// Watch implements [shim.Source].
func (d devices) Watch() (<-chan struct{}, func()) { return d.hub.WatchTools() }

// Notices implements [shim.Source].
func (d devices) Notices(owner string) (<-chan hub.Notice, func()) {
	return d.hub.SubscribeNotices(owner)
}

// Call implements [shim.Source].
func (d devices) Call(ctx context.Context, spec shim.Spec, c shim.Call) (*tool.Result, error) {
	o, _, tools := d.hub.FindProvider(c.Device)
	if o.Kind != xiaozhi.Kind || o.Owner != spec.Owner {
		return nil, tool.Fail(tool.Offline, "This device is not there any more.", nil)
	}
	name := o.FullName(c.Tool) // not a tool then; the hub refuses it with a message
	for _, t := range tools {
		if t.Tool.Name == c.Tool {
			name = t.Name
		}
	}
	return d.hub.Call(ctx, shimAccess(spec, c), name, &tool.Call{Args: c.Args})
}

// Message implements [shim.Source].
func (d devices) Message(ctx context.Context, spec shim.Spec, c shim.Call) (*tool.Result, error) {
	if o, _, _ := d.hub.FindProvider(c.Device); o.Kind != xiaozhi.Kind || o.Owner != spec.Owner {
		return nil, tool.Fail(tool.Offline, "This device is not there any more.", nil)
	}
	return d.hub.SendMessage(ctx, shimAccess(spec, c), c.Device, c.Tool, &tool.Call{Args: c.Args})
}

// shimAccess returns what a gateway may do: what all programs of its owner may.
func shimAccess(spec shim.Spec, c shim.Call) hub.Access {
	at := ""
	if u, err := url.Parse(spec.URL); err == nil {
		at = u.Host // without the path and query, which may be secret
	}
	return hub.Access{Caller: tool.Caller{Person: spec.Owner, Key: spec.ID, Address: at, Channel: "shim",
		Program: c.Program}}
}
