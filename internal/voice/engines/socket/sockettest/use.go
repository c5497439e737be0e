package sockettest

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/voice/engine"
)

// Ramp returns n samples that differ.
func Ramp(n int) []int16 {
	s := make([]int16, n)
	for i := range s {
		s[i] = int16(i*37 - 30000)
	}
	return s
}

// Listen has an engine hear samples, and returns all transcripts.
func Listen(ctx context.Context, e engine.Engine, samples []int16, h engine.Hints) (
	list []engine.Transcript, err error) {
	u, err := e.Listener.Listen(ctx, h)
	if err != nil {
		return nil, err
	}
	defer u.Close()
	for piece := range slices.Chunk(samples, 700) {
		if u.Write(piece) != nil {
			break // Next returns it too
		}
	}
	_ = u.Finish()
	for {
		heard, err := u.Next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, heard)
	}
}

// Speak has an engine say texts, and returns what its clips say and their sound.
func Speak(ctx context.Context, e engine.Engine, m engine.Manner, texts ...string) (
	said []string, sound []byte, err error) {
	s, err := e.Speaker.Speak(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	go func() {
		for _, text := range texts {
			if s.Write(text) != nil {
				return
			}
		}
		_ = s.Finish()
	}()
	for {
		clip, err := s.Next()
		if err == io.EOF {
			return said, sound, nil
		}
		if err != nil {
			return said, sound, err
		}
		data, err := io.ReadAll(clip.Sound)
		said, sound = append(said, clip.Text), append(sound, data...)
		clip.Sound.Close()
		if err != nil {
			return said, sound, err
		}
	}
}

// Eventually waits until something is so.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); _ = netx.Wait(t.Context(), time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// Clean checks that neither WebSockets nor goroutines of the packages are left, and that the client
// did nothing that the real server would not have understood.
func (s *Server) Clean(t testing.TB, packages ...string) {
	t.Helper()
	Eventually(t, "WebSockets are left open", func() bool { return s.Open() == 0 })
	stacks := make([]byte, 1<<20)
	Eventually(t, "goroutines are left", func() bool {
		all := string(stacks[:runtime.Stack(stacks, true)])
		return !slices.ContainsFunc(append(packages, "engines/socket"), func(p string) bool {
			return strings.Contains(all, p+".(*")
		})
	})
	if v := s.Violations(); len(v) > 0 {
		t.Errorf("violations: %q", v)
	}
}

// Log is a [bytes.Buffer] for several goroutines.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (b *Log) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns what was written.
func (b *Log) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
