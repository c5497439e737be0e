package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestAddressesRefused checks that no address of this table leads to a connection: the resolver
// returns what a careless one would, and the server listens on every form of 127.0.0.1.
func TestAddressesRefused(t *testing.T) {
	base, connections := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Write(pngBytes(t)) })
	p := port(t, base)
	tests := []struct {
		url    string
		reason Reason
	}{
		{base, ForbiddenAddress},
		{"http://localhost:" + p, ForbiddenAddress},
		{"http://LOCALHOST.:" + p, ForbiddenAddress},
		{"http://inside.test:" + p, ForbiddenAddress},
		{"http://half.test:" + p, ForbiddenAddress},
		{"http://mapped.test:" + p, ForbiddenAddress},
		{"http://nat64.test:" + p, ForbiddenAddress},
		{"http://zone.test:" + p, ForbiddenAddress},
		{"http://127.0.0.1.:" + p, ForbiddenAddress},
		{"http://127.1:" + p, BadAddress},
		{"http://0x7f.1:" + p, BadAddress},
		{"http://0x7f000001:" + p, BadAddress},
		{"http://0X7F.0.0.1:" + p, BadAddress},
		{"http://2130706433:" + p, BadAddress},
		{"http://0177.0.0.1:" + p, BadAddress},
		{"http://017700000001:" + p, BadAddress},
		{"http://127.0.0.1.0x0:" + p, BadAddress},
		{"http://1.2.3.4.5:" + p, BadAddress},
		{"http://256.0.0.1:" + p, BadAddress},
		{"http://127.0.0.01:" + p, BadAddress},
		{"http://0:" + p, BadAddress},
		{"http://0.0.0.0:" + p, ForbiddenAddress},
		{"http://①②⑦.⓪.⓪.①:" + p, BadAddress},
		{"http://127。0。0。1:" + p, BadAddress},
		{"http://%31%32%37.0.0.1:" + p, BadAddress},
		{"http://[::1]:" + p, ForbiddenAddress},
		{"http://[::]:" + p, ForbiddenAddress},
		{"http://[0:0:0:0:0:0:0:1]:" + p, ForbiddenAddress},
		{"http://[::127.0.0.1]:" + p, ForbiddenAddress},
		{"http://[::ffff:127.0.0.1]:" + p, ForbiddenAddress},
		{"http://[::ffff:7f00:1]:" + p, ForbiddenAddress},
		{"http://[::ffff:8.8.8.8]:" + p, ForbiddenAddress},
		{"http://[::ffff:0:127.0.0.1]:" + p, ForbiddenAddress},
		{"http://[64:ff9b::7f00:1]:" + p, ForbiddenAddress},
		{"http://[64:ff9b:1::7f00:1]:" + p, ForbiddenAddress},
		{"http://[2002:7f00:1::]:" + p, ForbiddenAddress},
		{"http://[2001:0:7f00:1::]:" + p, ForbiddenAddress},
		{"http://[fe80::1]:" + p, ForbiddenAddress},
		{"http://[fe80::1%25lo]:" + p, BadAddress},
		{"http://[fc00::1]:" + p, ForbiddenAddress},
		{"http://[fd00:ec2::254]/latest/meta-data/", ForbiddenAddress},
		{"http://[ff02::1]:" + p, ForbiddenAddress},
		{"http://[2001:db8::1]:" + p, ForbiddenAddress},
		{"http://10.0.0.1/", ForbiddenAddress},
		{"http://172.31.255.254/", ForbiddenAddress},
		{"http://192.168.1.1/", ForbiddenAddress},
		{"http://100.100.100.200/latest/meta-data/", ForbiddenAddress},
		{"http://169.254.169.254/latest/meta-data/", ForbiddenAddress},
		{"http://168.63.129.16/", ForbiddenAddress},
		{"http://198.18.0.1/", ForbiddenAddress},
		{"http://224.0.0.1/", ForbiddenAddress},
		{"http://255.255.255.255/", ForbiddenAddress},
		{"ftp://photos.test/", BadAddress},
		{"file:///etc/passwd", BadAddress},
		{"gopher://127.0.0.1:" + p, BadAddress},
		{"data:image/png;base64,AAAA", BadAddress},
		{"//photos.test/x", BadAddress},
		{"http:photos.test", BadAddress},
		{"http:///x", BadAddress},
		{"", BadAddress},
		{"http://user@photos.test/", BadAddress},
		{"http://user:secret@photos.test/", BadAddress},
		{"http://photos.test#@127.0.0.1:" + p + "/", Network},
		{"http://photos.test\\@127.0.0.1:" + p + "/", BadAddress},
		{"http://127.0.0.1:" + p + "\\@photos.test/", BadAddress},
		{"http://photos.test:0/", BadAddress},
		{"http://photos.test:/", BadAddress},
		{"http://photos.test:65536/", BadAddress},
		{"http://photos.test:http/", BadAddress},
		{"http://a..test/", BadAddress},
		{"http://.test/", BadAddress},
		{"http://" + strings.Repeat("a", 64) + ".test/", BadAddress},
		{"http://" + strings.Repeat("a.", 130) + "test/", BadAddress},
		{"http://photos.test/" + strings.Repeat("a", maxURL), BadAddress},
		{"http://pho tos.test/", BadAddress},
		{"http://photos.test/\r\nHost: x", BadAddress},
		{"http://nowhere.test/", Network},
		{"http://empty.test/", Network},
		{"http://crowd.test/", Network},
	}
	names := resolving("localhost", "127.0.0.1", "::1").
		add("LOCALHOST.", "127.0.0.1").
		add("inside.test", "192.168.7.7").
		add("half.test", "8.8.8.8", "127.0.0.1").
		add("mapped.test", "::ffff:127.0.0.1").
		add("nat64.test", "64:ff9b::7f00:1").
		add("zone.test", "fe80::1%lo").
		add("127.0.0.1.", "127.0.0.1").
		add("empty.test").
		add("crowd.test", slices.Repeat([]string{"8.8.8.8"}, maxAnswers+1)...)
	for _, tt := range tests {
		f := New(Options{Resolver: names})
		m, err := f.Image(t.Context(), tt.url)
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != tt.reason || m != nil {
			t.Errorf("%.60q: got %v, %v; want %s", tt.url, m, err, tt.reason)
		} else if strings.Contains(e.Error(), "secret") || strings.Contains(e.Error(), "meta-data") {
			t.Errorf("%.60q: error tells too much: %s", tt.url, e)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestAllowHosts(t *testing.T) {
	base, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Write(pngBytes(t)) })
	p := port(t, base)
	hosts := []string{"*.rokidcdn.com", "Photos.Test", "127.0.0.1"}
	tests := []struct {
		host string
		ok   bool
	}{
		{"basecloud.rokidcdn.com", true},
		{"a.b.rokidcdn.com", true},
		{"BaseCloud.RokidCDN.com", true},
		{"rokidcdn.com", false},
		{"evilrokidcdn.com", false},
		{"rokidcdn.com.evil.test", false},
		{"photos.test", true},
		{"a.photos.test", false},
		{"127.0.0.1", true},
		{"127.0.0.2", false},
	}
	for _, tt := range tests {
		f := New(Options{AllowHosts: hosts, AllowNets: loopback, Resolver: resolving(tt.host, "127.0.0.1")})
		_, err := f.Image(t.Context(), "http://"+tt.host+":"+p+"/")
		if tt.ok && err != nil {
			t.Errorf("%s: %v", tt.host, err)
		}
		if !tt.ok {
			wantReason(t, err, ForbiddenAddress)
		}
	}
}

// TestRebinding resolves a name whose addresses change between the check and the connection.
func TestRebinding(t *testing.T) {
	base, connections := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Write(pngBytes(t)) })
	names := resolving("rebind.test", "8.8.8.8").add("rebind.test", "127.0.0.1")
	f := New(Options{Resolver: names, CacheBytes: -1})
	var dialled []string
	f.guard.dial = func(_ context.Context, _, address string) (net.Conn, error) {
		dialled = append(dialled, address)
		return nil, &net.OpError{Op: "dial", Err: errors.New("no way there from a test")}
	}
	url := "http://rebind.test:" + port(t, base) + "/"
	_, err := f.Image(t.Context(), url)
	wantReason(t, err, Network)
	if n := names.asked.Load(); n != 1 {
		t.Errorf("resolver was asked %d times for one connection", n)
	}
	_, err = f.Image(t.Context(), url)
	wantReason(t, err, ForbiddenAddress)
	if want := []string{"8.8.8.8:" + port(t, base)}; !slices.Equal(dialled, want) {
		t.Errorf("dialled %v, want %v", dialled, want)
	}
	if connections.Load() != 0 {
		t.Error("the server inside was reached")
	}
}

// TestDialerHasTheLastWord checks that the dialer rejects a forbidden address that no earlier check
// has rejected.
func TestDialerHasTheLastWord(t *testing.T) {
	base, connections := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	f := New(Options{})
	for _, address := range []string{"127.0.0.1:" + port(t, base), "localhost:" + port(t, base)} {
		_, err := f.guard.dial(t.Context(), "tcp", address)
		wantReason(t, err, ForbiddenAddress)
	}
	if connections.Load() != 0 {
		t.Error("a connection was made")
	}
}

func TestNextAddressIsTried(t *testing.T) {
	base, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Write(pngBytes(t)) })
	f := New(Options{AllowNets: loopback, Resolver: resolving("two.test", "127.66.66.66", "::ffff:127.0.0.1")})
	if _, err := f.Image(t.Context(), "http://two.test:"+port(t, base)); err != nil {
		t.Errorf("second address was not tried: %v", err)
	}
}

func TestRedirects(t *testing.T) {
	var to string
	base, connections := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/go":
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/3":
			http.Redirect(w, r, "/2", http.StatusFound)
		case "/2":
			http.Redirect(w, r, "1", http.StatusMovedPermanently)
		case "/1":
			http.Redirect(w, r, "//photos.test:"+port(t, "http://"+r.Host)+"/0", http.StatusSeeOther)
		default:
			w.Write(pngBytes(t))
		}
	})
	p := port(t, base)
	inside, inner := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Write(pngBytes(t)) })
	tests := []struct {
		name, path, to string
		reason         Reason // empty: no error
	}{
		{"three hops", "/3", "", ""},
		{"four hops", "/go", "/3", HTTPStatus},
		{"round in circles", "/loop", "", HTTPStatus},
		{"metadata", "/go", "http://169.254.169.254/latest/meta-data/", ForbiddenAddress},
		{"localhost", "/go", "http://localhost:" + port(t, inside) + "/", ForbiddenAddress},
		{"name that is inside", "/go", "http://inside.test:" + port(t, inside) + "/", ForbiddenAddress},
		{"loopback in disguise", "/go", "http://2130706433:" + port(t, inside) + "/", BadAddress},
		{"other scheme", "/go", "file:///etc/passwd", BadAddress},
		{"with credentials", "/go", "http://a:b@photos.test:" + p + "/0", BadAddress},
		{"to content", "/go", "data:image/png;base64,AAAA", BadAddress},
		{"off the list", "/go", "http://elsewhere.test:" + p + "/0", ForbiddenAddress},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to = tt.to
			f := New(Options{
				// The outer server's own address is allowed, as if it were public.
				AllowNets:  []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
				AllowHosts: []string{"photos.test", "localhost", "inside.test", "169.254.169.254"},
				Resolver: resolving("photos.test", "127.0.0.1").add("localhost", "127.0.0.1", "::1").
					add("inside.test", "127.0.0.2").add("elsewhere.test", "127.0.0.1"),
			})
			m, err := f.Image(t.Context(), "http://photos.test:"+p+tt.path)
			if tt.reason == "" {
				if err != nil || m == nil {
					t.Errorf("got %v, %v", m, err)
				}
				return
			}
			wantReason(t, err, tt.reason)
		})
	}
	if inner.Load() != 0 {
		t.Error("the server inside was reached")
	}
	if connections.Load() == 0 {
		t.Error("the server outside was not reached: the test proves nothing")
	}

	t.Run("none wanted", func(t *testing.T) {
		f := New(Options{AllowNets: loopback, MaxRedirects: -1})
		_, err := f.Image(t.Context(), base+"/2")
		wantReason(t, err, HTTPStatus)
	})
}

func TestNoWayBackToPlainHTTP(t *testing.T) {
	plain, connections := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Write(pngBytes(t)) })
	var to string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/photo" {
			w.Write(pngBytes(t))
			return
		}
		http.Redirect(w, r, to, http.StatusFound)
	}))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	f := New(Options{AllowNets: loopback, CacheBytes: -1})
	f.transport.TLSClientConfig = &tls.Config{RootCAs: roots}

	to = plain
	_, err := f.Image(t.Context(), s.URL)
	wantReason(t, err, ForbiddenAddress)
	if connections.Load() != 0 {
		t.Error("the plain server was reached")
	}

	to = s.URL + "/photo"
	if _, err := f.Image(t.Context(), s.URL); err != nil {
		t.Errorf("https to https: %v", err)
	}
	to = s.URL + "/photo"
	up, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, s.URL, http.StatusFound) })
	if _, err := f.Image(t.Context(), up); err != nil {
		t.Errorf("http to https: %v", err)
	}
	_, err = New(Options{AllowNets: loopback}).Image(t.Context(), s.URL)
	wantReason(t, err, Network) // its certificate is not trusted
}
