// Package pebbletest runs Pebble, the test authority of Let's Encrypt, and a DNS server for it.
package pebbletest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/netx"
)

// Options are the options of a [Pebble].
type Options struct {
	// HTTPPort and TLSPort are where it checks names; 0 means that nothing listens there.
	HTTPPort, TLSPort int
	// Lifetime is that of certificates; 0 means 90 days. ShortLived adds the profile shortlived,
	// with 6 days.
	Lifetime   time.Duration
	ShortLived bool
	// AlternateRoots is the number of other chains that it offers.
	AlternateRoots int
	// AccountKey is the key, in base64url, of the account "kid-1", to which new accounts must be
	// bound; empty means that they need not.
	AccountKey string
}

// Pebble is a running authority. It resolves every name to 127.0.0.1, and knows the TXT records
// that DNSCommand adds.
type Pebble struct {
	Directory  string
	CA         []byte // PEM, of the certificate of the directory
	DNSCommand []string

	t       testing.TB
	o       Options
	folder  string
	listen  string
	manage  string
	dns     *dnsServer
	running *exec.Cmd
	client  *http.Client
	log     *lines
}

// program returns the path of Pebble, which the go command builds once. The version is in
// tools/tools.mod.
var program = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	tools := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "tools", "tools.mod")
	cmd := exec.Command("go", "tool", "-modfile="+tools, "-n", "pebble")
	cmd.Stderr = os.Stderr
	out, err = cmd.Output()
	return strings.TrimSpace(string(out)), err
})

// Start starts an authority, which ends with the test.
func Start(t testing.TB, o Options) *Pebble {
	t.Helper()
	p := &Pebble{t: t, o: o, folder: t.TempDir(), listen: FreeAddress(t), manage: FreeAddress(t), log: &lines{}}
	p.Directory = "https://" + p.listen + "/dir"
	p.dns = newDNS(t, filepath.Join(p.folder, "records"))
	p.DNSCommand = []string{p.script("dns", `printf '%s %s %s\n' "$1" "$2" "$3" >> `+p.dns.file)}
	p.certificate()
	p.configure()
	p.Restart()
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("pebble:\n%s", p.log.tail())
		}
	})
	return p
}

// Restart starts the authority again, without its memory of accounts and with other roots.
func (p *Pebble) Restart() {
	p.t.Helper()
	p.Stop()
	path, err := program()
	if err != nil {
		p.t.Fatalf("pebble cannot be built: %v", err)
	}
	cmd := exec.Command(path, "-config", filepath.Join(p.folder, "config.json"), "-dnsserver", p.dns.address)
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0",
		"PEBBLE_ALTERNATE_ROOTS="+strconv.Itoa(p.o.AlternateRoots))
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.running = cmd
	limit := time.Now().Add(20 * time.Second)
	for {
		resp, err := p.client.Get(p.Directory)
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Now().After(limit) {
			p.t.Fatalf("pebble does not answer: %v\n%s", err, p.log.tail())
		}
		netx.Wait(context.Background(), 10*time.Millisecond) //nolint:errcheck // it does not end
	}
}

// Stop ends the authority.
func (p *Pebble) Stop() {
	if p.running == nil {
		return
	}
	p.running.Process.Kill() //nolint:errcheck // it has ended
	p.running.Wait()         //nolint:errcheck // it was killed
	p.running = nil
	p.client.CloseIdleConnections()
}

// Roots returns the root of the first chain, or of another one.
func (p *Pebble) Roots(n int) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.Root(n))
	return pool
}

// Root returns the root of a chain.
func (p *Pebble) Root(n int) *x509.Certificate {
	p.t.Helper()
	resp, err := p.client.Get("https://" + p.manage + "/roots/" + strconv.Itoa(n))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		p.t.Fatalf("no root: %s", text)
	}
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		p.t.Fatal(err)
	}
	return root
}

// RenewNow makes the authority suggest that a certificate, as PEM, is renewed at once.
func (p *Pebble) RenewNow(cert string) {
	p.t.Helper()
	now := time.Now().UTC()
	window := fmt.Sprintf(`{"suggestedWindow":{"start":%q,"end":%q}}`, now.Add(-2*time.Hour).Format(time.RFC3339),
		now.Add(-time.Hour).Format(time.RFC3339))
	body, err := json.Marshal(map[string]string{"certificate": cert, "ariResponse": window})
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := p.client.Post("https://"+p.manage+"/set-renewal-info/", "application/json", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		p.t.Fatalf("%s: %s", resp.Status, text)
	}
}

// Orders returns how many certificates it has issued.
func (p *Pebble) Orders() int { return strings.Count(p.log.String(), "Issued certificate serial") }

// Records returns what DNSCommand has added and removed, one per line.
func (p *Pebble) Records() string {
	text, _ := os.ReadFile(p.dns.file) // nothing yet
	return string(text)
}

// script writes a shell script and returns its path.
func (p *Pebble) script(name, text string) string {
	path := filepath.Join(p.folder, name)
	p.write(name, "#!/bin/sh\n"+text+"\n", 0o700)
	return path
}

func (p *Pebble) write(name, text string, mode os.FileMode) {
	if err := os.WriteFile(filepath.Join(p.folder, name), []byte(text), mode); err != nil {
		p.t.Fatal(err)
	}
}

// certificate makes the certificate of the directory, which is its own authority.
func (p *Pebble) certificate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pebble"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		p.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}
	p.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	p.write("cert.pem", string(p.CA), 0o600)
	p.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})), 0o600)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.CA)
	p.client = &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
}

// configure writes the configuration file.
func (p *Pebble) configure() {
	closed := func(port int) int {
		if port == 0 {
			port = 1 // tcpmux: nothing listens there
		}
		return port
	}
	life := p.o.Lifetime
	if life == 0 {
		life = 90 * 24 * time.Hour
	}
	settings := map[string]any{
		"listenAddress": p.listen, "managementListenAddress": p.manage,
		"certificate": filepath.Join(p.folder, "cert.pem"), "privateKey": filepath.Join(p.folder, "key.pem"),
		"httpPort": closed(p.o.HTTPPort), "tlsPort": closed(p.o.TLSPort), "keyAlgorithm": "ecdsa",
		"domainBlocklist": []string{"blocked.example.org"},
	}
	// It takes one by chance if an order names none.
	profiles := map[string]any{
		"default": map[string]any{"description": "default", "validityPeriod": int(life.Seconds())}}
	if p.o.ShortLived {
		profiles["shortlived"] = map[string]any{"description": "six days", "validityPeriod": 6 * 24 * 3600}
	}
	settings["profiles"] = profiles
	if p.o.AccountKey != "" {
		settings["externalAccountBindingRequired"] = true
		settings["externalAccountMACKeys"] = map[string]string{"kid-1": p.o.AccountKey}
	}
	text, err := json.Marshal(map[string]any{"pebble": settings})
	if err != nil {
		p.t.Fatal(err)
	}
	p.write("config.json", string(text), 0o600)
}

// FreeAddress returns an address of this machine with a free TCP port.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// lines keeps the output of a program.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) tail() string {
	text := l.String()
	return text[max(0, len(text)-4<<10):]
}
