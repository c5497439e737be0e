package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/netx"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/plug/mcp/upstream/signin"
	"patchbay/internal/store"
)

const (
	// signInPath is where people come back to who have signed in to a tool server, and clientPath
	// the document about this installation.
	signInPath = "/oauth/upstream"
	clientPath = "/oauth/client.json"
)

// newSignIns returns what signs people in to tool servers. Listen is the address of this server.
func newSignIns(b *Base, listen string, dial upstream.DialFunc, instance string, log *slog.Logger) *signin.Service {
	own := ownOrigin(b.Config, listen)
	return signin.New(signin.Options{
		Store: b.Store, Box: b.Box, Dial: dial, Instance: instance, Logger: log,
		Identity: func(origin string) signin.Identity {
			if u, err := url.Parse(origin); err == nil && b.Config.PublicURL == "" && u.Scheme == "http" &&
				netx.IsLoopback(u.Hostname()) {
				return identity(origin)
			}
			return identity(own)
		},
		Link: func(number int64) string { return own + "/tools/upstreams/" + strconv.FormatInt(number, 10) },
	})
}

// ownOrigin returns the public address of the server, or else the one on this machine.
func ownOrigin(c *config.Config, listen string) string {
	if c.PublicURL != "" {
		return strings.TrimRight(c.PublicURL, "/")
	}
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		port = "3000"
	}
	scheme := "http"
	if c.ServesTLS() {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort("127.0.0.1", port)
}

// identity returns who an installation at an origin is at authorization servers. Without a public
// address the origin has to be on this machine (RFC 8252 §7.3).
func identity(own string) signin.Identity {
	id := signin.Identity{Redirect: own + signInPath}
	if u, err := url.Parse(own); err == nil && u.Scheme == "https" && isPublicName(u.Hostname()) {
		id.Document, id.Site = own+clientPath, own
	}
	return id
}

// isPublicName reports whether others may be able to reach a host.
func isPublicName(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.IsGlobalUnicast() && !a.IsPrivate()
	}
	for _, private := range []string{".local", ".lan", ".home", ".internal", ".localhost", ".home.arpa", ".test"} {
		if strings.HasSuffix(host, private) {
			return false
		}
	}
	return strings.Contains(host, ".")
}

// serveClient serves the document about this installation.
func serveClient(c *config.Config) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := identity(strings.TrimRight(c.PublicURL, "/"))
		text, err := signin.Document(id)
		if id.Document == "" || err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "public, max-age=3600")
		_, _ = w.Write(text)
	}
}

// tokensOf returns a function that returns the tokens of an upstream.
func tokensOf(signins *signin.Service) func(upstream.Spec) upstream.Tokens {
	return func(s upstream.Spec) upstream.Tokens {
		number, err := upstreamNumber(s.ID)
		if err != nil {
			number = 0 // it is only looked at
		}
		return signins.Source(signin.Target{Number: number, Person: s.Owner, Owner: s.SharedBy, Settings: s.Settings,
			Untrusted: s.Untrusted})
	}
}

// target returns an upstream as a person signs in to it; false if that cannot be.
func (b *Base) target(ctx context.Context, u store.Upstream, person string) (t signin.Target, ok bool, err error) {
	t = signin.Target{Number: u.Number, Person: person, Owner: u.Owner}
	if u.Kind != UpstreamMCP {
		return t, false, nil
	}
	if err := b.UpstreamSettings(u, &t.Settings); err != nil {
		return t, false, err
	}
	owner, err := b.Store.People.ByID(ctx, u.Owner)
	t.Untrusted = owner.Role != account.RoleAdmin
	return t, t.Settings.SignsIn() && t.Settings.URL != "" && (person == u.Owner || canShare(u, &t.Settings)), err
}

// memberTarget is target for what changes a sign-in: nobody but the owner touches that of a
// machine.
func (b *Base) memberTarget(ctx context.Context, u store.Upstream, person string) (signin.Target, error) {
	t, ok, err := b.target(ctx, u, person)
	if err == nil && !ok && person != u.Owner {
		err = msgNotShareable.Errorf()
	}
	return t, err
}

// signInActions provides the operations on sign-ins to tool servers.
func (b *Base) signInActions(signins *signin.Service) control.SignInActions {
	return control.SignInActions{
		State: func(ctx context.Context, u store.Upstream, person string) (*control.UpstreamSignIn, error) {
			t, ok, err := b.target(ctx, u, person)
			if !ok || err != nil {
				return nil, err
			}
			s, err := signins.Status(ctx, t)
			return &control.UpstreamSignIn{Need: s.Need, Message: s.Message, SignedIn: s.SignedIn, Machine: s.Machine,
				Issuer: s.Issuer, Since: s.Since, Scopes: s.Scopes, Pending: s.Pending}, err
		},
		Start: func(ctx context.Context, u store.Upstream, person, by, origin string) (string, error) {
			t, err := b.memberTarget(ctx, u, person)
			if err != nil {
				return "", err
			}
			return signins.Start(ctx, t, by, origin)
		},
		Answered: signins.Answered,
		Finish: func(ctx context.Context, u store.Upstream, person, by, address string) error {
			t, err := b.memberTarget(ctx, u, person)
			if err != nil {
				return err
			}
			return signins.Finish(ctx, t, by, address)
		},
		Forget: func(ctx context.Context, u store.Upstream, person string) error {
			t, err := b.memberTarget(ctx, u, person)
			if err != nil {
				return err
			}
			return signins.Forget(ctx, t)
		},
	}
}
