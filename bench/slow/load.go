package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/netx"
)

const (
	// trickle is the interval between the bytes of a sender.
	trickle = time.Second
	// ramp is the time over which the senders connect, so that they are not disconnected together.
	ramp = 10 * time.Second
	// keyed means that one of so many senders has a valid key.
	keyed = 10
)

// measure requests each endpoint while the senders are connected.
func (t *target) measure(ctx context.Context, senders int, o options) ([]line, error) {
	sending, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	var here, came atomic.Int64
	for i := range senders {
		all.Go(func() {
			_ = netx.Wait(sending, time.Duration(i)*ramp/time.Duration(senders))
			for sending.Err() == nil {
				came.Add(1)
				t.send(sending, i, &here)
				_ = netx.Wait(sending, rand.N(trickle))
			}
		})
	}
	for limit := time.Now().Add(6 * ramp); here.Load() < int64(senders)*9/10; _ = netx.Wait(ctx, trickle/10) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if time.Now().After(limit) {
			return nil, fmt.Errorf("only %d senders have come", here.Load())
		}
	}
	before, began := came.Load(), time.Now()
	lines, errs := make([]line, len(t.endpoints)), make([]error, len(t.endpoints))
	var clients sync.WaitGroup
	for i, d := range t.endpoints {
		clients.Go(func() {
			var took []time.Duration
			took, errs[i] = t.request(ctx, d, o)
			lines[i] = summary(t, d, senders, took)
		})
	}
	clients.Wait()
	for i := range lines {
		lines[i].Came = float64(came.Load()-before) / time.Since(began).Seconds()
	}
	return lines, errors.Join(append(errs, ctx.Err())...)
}

// send posts a body to an endpoint until the server disconnects it.
func (t *target) send(ctx context.Context, i int, here *atomic.Int64) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, byte(1+i>>16), byte(i>>8), byte(i))}}
	conn, err := d.DialContext(ctx, "tcp", t.address)
	if err != nil {
		_ = netx.Wait(ctx, trickle)
		return
	}
	defer conn.Close()
	key := ""
	if i%keyed == 0 {
		key = "Authorization: Bearer " + t.key + "\r\n"
	}
	fmt.Fprintf(conn,
		"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n%sContent-Length: 100000\r\n\r\n{",
		t.posts[i%len(t.posts)], t.address, key)
	here.Add(1)
	defer here.Add(-1)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		io.Copy(io.Discard, conn) //nolint:errcheck // it ends either way
	}()
	tick := time.NewTicker(trickle)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			conn.Close()
			<-gone
			return
		case <-gone:
			return
		case <-tick.C:
			conn.Write([]byte(" ")) //nolint:errcheck // the reader gets the error
		}
	}
}

// request requests an endpoint repeatedly, and returns the durations.
func (t *target) request(ctx context.Context, d endpoint, o options) (took []time.Duration, err error) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for end := time.Now().Add(o.span); time.Now().Before(end); _ = netx.Wait(ctx, o.gap/2+rand.N(o.gap)) {
		if ctx.Err() != nil {
			return took, ctx.Err()
		}
		body := d.body
		if body != "" {
			body = fmt.Sprintf(body, rand.Int32())
		}
		r, err := http.NewRequestWithContext(ctx, d.method, "http://"+t.address+d.path, strings.NewReader(body))
		if err != nil {
			return took, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+t.key)
		began := time.Now()
		res, err := client.Do(r)
		if err != nil {
			return took, err
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		took = append(took, time.Since(began))
		if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(text), d.has) {
			return took, fmt.Errorf("%s: %s, %v: %.200s", d.name, res.Status, err, text)
		}
	}
	return took, nil
}
