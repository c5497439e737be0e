package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/acme"

	"patchbay/internal/netx"
	"patchbay/internal/store"
)

// Run gets and renews certificates until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	m.started = moment()
	m.mu.Unlock()
	failing := false
	for {
		err := m.pass(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			m.Logger.Warn("certificates could not be looked after; it is tried again", "error", err)
		}
		failing = err != nil
		wait := m.Times.Look
		if err == nil && m.missing() {
			wait = m.Times.Soon
		}
		netx.WaitUnless(ctx, m.wake, wait)
	}
}

// missing reports whether a name has no certificate.
func (m *Manager) missing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.current) < len(m.names)
}

// pass reads the certificates, and orders what is due unless another instance does.
func (m *Manager) pass(ctx context.Context) error {
	if err := m.read(ctx); err != nil {
		return err
	}
	for _, u := range m.unsaved {
		if err := m.save(ctx, u); err != nil {
			return err // nothing is ordered that could not be stored either
		}
	}
	if !m.anyDue(time.Now()) {
		return nil
	}
	return m.holding(ctx, func(ctx context.Context) error {
		if err := m.read(ctx); err != nil { // another instance may have ordered meanwhile
			return err
		}
		for _, name := range m.Names() {
			if err := m.attend(ctx, m.row(name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// holding calls f while this instance alone may order. It returns without a call if another
// instance may. The context of f ends if the right is lost.
func (m *Manager) holding(ctx context.Context, f func(context.Context) error) error {
	if m.Acquire == nil {
		return f(ctx)
	}
	if mine, err := m.Acquire(ctx, m.Times.Lease); err != nil || !mine {
		return err
	}
	held, lose := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		until := time.Now().Add(m.Times.Lease)
		for netx.Wait(held, m.Times.Lease/4) == nil {
			now := time.Now()
			mine, err := m.Acquire(held, m.Times.Lease)
			if err == nil && mine {
				until = now.Add(m.Times.Lease)
			} else if err == nil || time.Now().After(until.Add(-m.Times.Lease/4)) {
				lose(errors.New("another instance may order certificates now"))
			}
		}
	}()
	err := f(held)
	lose(nil)
	<-done
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, m.Release(free))
}

// read reads the certificates from the database and serves those that have changed. What could not
// be stored, because the database cannot be written, is kept as if it had been.
func (m *Manager) read(ctx context.Context) error {
	rows, err := m.Store.All(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.rows)
	for _, r := range rows {
		if u, ok := m.unsaved[r.Name]; ok && r.Issued.After(u.row.Issued) {
			delete(m.unsaved, r.Name) // another instance has got a later one
		} else if ok {
			continue
		}
		m.rows[r.Name] = r
		if slices.Contains(m.names, r.Name) {
			m.serve(r)
		}
	}
	now := time.Now()
	for name, f := range m.failure {
		r := m.rows[name]
		if (f.Tried.After(r.Tried) || !m.counts(r, now)) && !r.Issued.After(f.Issued) {
			m.rows[name] = withAttempt(r, f)
		} else {
			delete(m.failure, name) // another instance has tried since
		}
	}
	for name, u := range m.unsaved {
		m.rows[name] = u.row
	}
	return nil
}

// withAttempt returns a row, or the zero value, with the failed attempt of another one.
func withAttempt(r, f store.Certificate) store.Certificate {
	if r.Name == "" {
		r.Name, r.Directory = f.Name, f.Directory
	}
	r.Failures, r.Tried, r.Retry = f.Failures, f.Tried, f.Retry
	r.TriedDirectory, r.Challenge, r.Problem, r.Detail = f.TriedDirectory, f.Challenge, f.Problem, f.Detail
	return r
}

// serve begins to serve the certificate of a row, if it has one that is not served yet. The lock is
// held.
func (m *Manager) serve(r store.Certificate) {
	if have := m.current[r.Name]; r.Chain == "" || have != nil && have.sealed == r.Sealed {
		return
	}
	key, err := m.Box.Open(r.Sealed)
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.X509KeyPair([]byte(r.Chain), []byte(key))
	}
	if err != nil {
		// The installation's secret was lost: another certificate is ordered.
		m.Logger.Warn("a stored certificate cannot be used", "name", r.Name, "error", err)
		return
	}
	if have := m.current[r.Name]; have == nil || !have.tls.Leaf.Equal(pair.Leaf) {
		m.Logger.Info("a certificate is served", "name", r.Name, "expires", pair.Leaf.NotAfter,
			"issuer", pair.Leaf.Issuer.CommonName)
	}
	m.current[r.Name] = &held{sealed: r.Sealed, tls: &pair}
}

// row returns what is known about the certificate of a name.
func (m *Manager) row(name string) store.Certificate {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.rows[name]
	if !ok {
		r.Name = name
	}
	return r
}

// anyDue reports whether there is something to do that needs the right to order.
func (m *Manager) anyDue(now time.Time) bool {
	for _, name := range m.Names() {
		if r := m.row(name); m.due(r, now) || m.askDue(r, now) {
			return true
		}
	}
	return false
}

// due reports whether a certificate is to be ordered now.
func (m *Manager) due(r store.Certificate, now time.Time) bool {
	wanted := !m.Ready(r.Name) || r.Directory != m.Directory || !now.Before(r.Renew)
	return wanted && !now.Before(m.retryAt(r, now))
}

// retryAt returns when a name may be tried again. Somebody who restarts the server has perhaps
// mended what was wrong, and need not wait for longer than after a first failure.
func (m *Manager) retryAt(r store.Certificate, now time.Time) time.Time {
	if !m.counts(r, now) {
		return now
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started.After(now) {
		m.started = now // the clock was corrected since
	}
	if r.Tried.Before(m.started) && r.Problem != faultRate {
		if soon := r.Tried.Add(m.Times.Retry); soon.Before(r.Retry) {
			return soon
		}
	}
	return r.Retry
}

// maxSkew is how much the clocks of instances may differ.
const maxSkew = time.Minute

// counts reports whether the times of a row's last attempt can be believed, and are about the
// authority that is set. A clock that was wrong has perhaps stored a time that comes in years.
func (m *Manager) counts(r store.Certificate, now time.Time) bool {
	return r.TriedDirectory == m.Directory && !r.Tried.After(now.Add(maxSkew))
}

// attend orders a certificate if it is due, or asks when it should be renewed. The error is one of
// the database, or that ctx has ended; other problems are stored.
func (m *Manager) attend(ctx context.Context, r store.Certificate) error {
	now := time.Now()
	if m.askDue(r, now) {
		if err := m.ask(ctx, &r, now); err != nil {
			return err
		}
	}
	if !m.due(r, now) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, m.Times.Order+m.DNSWait)
	defer cancel()
	kind := m.kind(r)
	got, err := m.order(limited, r, kind)
	if errors.Is(err, errNoAccount) {
		// The authority has forgotten the account, as test authorities do.
		if err = m.forgetAccount(limited); err == nil {
			got, err = m.order(limited, r, kind)
		}
	}
	switch {
	case err == nil: // even if ctx has ended: it would be ordered again
		return m.issued(ctx, r, got)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return m.failed(ctx, r, kind, err)
}

// kind returns the kind of challenge of the next attempt: the one that worked, or after a failure
// the next one.
func (m *Manager) kind(r store.Certificate) string {
	at := 0
	for i, k := range m.Challenges {
		if k == r.Challenge {
			at = i
			if r.Problem != "" {
				at++
			}
		}
	}
	return m.Challenges[at%len(m.Challenges)]
}

// issued serves a new certificate and stores it.
func (m *Manager) issued(ctx context.Context, old store.Certificate, got issuedCertificate) error {
	r := store.Certificate{Name: old.Name, Directory: m.Directory, Chain: got.chain, Sealed: m.Box.Seal(got.key),
		Issued: got.leaf.NotBefore, Expires: got.leaf.NotAfter, Renew: renewal(got.leaf), Tried: moment(),
		TriedDirectory: m.Directory, Challenge: got.kind}
	event := Issued
	if old.Chain != "" {
		event = Renewed
	}
	u := unsaved{r, event}
	m.mu.Lock()
	m.unsaved[r.Name] = u
	delete(m.failure, r.Name)
	m.rows[r.Name] = r
	m.serve(r)
	m.mu.Unlock()
	m.results.WithLabelValues(event).Inc()
	m.Logger.Info("a certificate was "+event, "name", r.Name, "expires", r.Expires, "renews", r.Renew,
		"root", got.root, "challenge", got.kind)
	return m.save(ctx, u)
}

// saveTime limits the storing of a certificate after the server was told to stop, or has lost the
// right to order.
const saveTime = 10 * time.Second

// save stores a certificate that is served already.
func (m *Manager) save(ctx context.Context, u unsaved) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	if err := m.Store.Save(ctx, u.row); err != nil {
		return fmt.Errorf("the certificate of %s cannot be stored: %w", u.row.Name, err)
	}
	delete(m.unsaved, u.row.Name)
	m.tell(ctx, u.event, u.row.Name)
	return nil
}

// moment returns the time as it is stored, so that what was read back is no earlier.
func moment() time.Time { return time.Now().Truncate(time.Millisecond) }

// failed stores why an order failed, and when the next one is made.
func (m *Manager) failed(ctx context.Context, r store.Certificate, kind string, err error) error {
	f, now := classify(err), moment()
	_, untold := m.failure[r.Name]
	again := r.Problem == f.code && r.Challenge == kind && !untold
	if r.TriedDirectory != m.Directory {
		r.Failures = 0 // of another authority
	}
	r.Failures++
	r.Tried, r.TriedDirectory = now, m.Directory
	r.Challenge, r.Problem, r.Detail = kind, f.code, f.detail
	r.Retry = now.Add(max(m.delay(r.Failures), f.wait))
	if r.Directory == "" {
		r.Directory = m.Directory
	}
	m.mu.Lock()
	m.rows[r.Name] = r
	m.mu.Unlock()
	m.results.WithLabelValues(Failed).Inc()
	m.Logger.Warn("a certificate could not be got", "name", r.Name, "why", f.text(r.Name, kind).String(),
		"failures", r.Failures, "again", r.Retry)
	if err := m.Store.SaveAttempt(ctx, r); err != nil {
		m.failure[r.Name] = r // the authority is not asked again before r.Retry all the same
		return err
	}
	delete(m.failure, r.Name)
	if !again {
		m.tell(ctx, Failed, r.Name)
	}
	return nil
}

// delay returns the delay after a number of failures.
func (m *Manager) delay(failures int) time.Duration {
	if len(m.Challenges) > 1 {
		if failures--; failures == 0 {
			return m.Times.Other
		}
	}
	b := netx.Backoff{First: m.Times.Retry, Max: m.Times.MaxRetry}
	var d time.Duration
	for range min(failures, 30) { // it has long reached the limit
		d = b.Next()
	}
	return d
}

func (m *Manager) tell(ctx context.Context, event, name string) {
	if m.Event != nil {
		m.Event(ctx, event, name)
	}
}

// errNoAccount means that the authority does not know the account.
var errNoAccount = acme.ErrNoAccount
