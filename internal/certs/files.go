package certs

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"sync"
	"time"
)

// filesEvery is how often the files of a certificate are looked at, when clients connect.
const filesEvery = 10 * time.Second

// Files is a certificate in files, which is read again when they change. It is safe for concurrent
// use.
type Files struct {
	cert, key string
	every     time.Duration
	log       *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	looked time.Time
	stamp  [2]time.Time // of the files, as last read
}

// OpenFiles reads a certificate and its private key.
func OpenFiles(cert, key string, log *slog.Logger) (*Files, error) {
	f := &Files{cert: cert, key: key, every: filesEvery, log: log, looked: time.Now()}
	f.stamp = f.stamps()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	f.pair = &pair
	return f, nil
}

// stamps returns when the files were changed; zero if that is not known.
func (f *Files) stamps() (at [2]time.Time) {
	for i, name := range []string{f.cert, f.key} {
		if info, err := os.Stat(name); err == nil {
			at[i] = info.ModTime()
		}
	}
	return at
}

// TLSConfig returns the configuration of a TLS server with the certificate, as it is at the time of
// each connection. The caller may change it.
func (f *Files) TLSConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.latest(), nil }}
}

// Leaf returns the certificate.
func (f *Files) Leaf() *x509.Certificate { return f.latest().Leaf }

// latest returns the certificate, after reading the files if they have changed. While they cannot
// be used, such as between the writing of the two, it is the one before.
func (f *Files) latest() *tls.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.looked) < f.every {
		return f.pair
	}
	f.looked = now
	stamp := f.stamps()
	if stamp == f.stamp {
		return f.pair
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		f.log.Warn("the changed certificate cannot be used; the one before is", "error", err)
		return f.pair
	}
	f.pair, f.stamp = &pair, stamp
	f.log.Info("the certificate was read again", "expires", pair.Leaf.NotAfter)
	return f.pair
}
