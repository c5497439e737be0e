package xiaozhi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
)

// TestMusicFileGoesOn checks that a file is read to its end although its server breaks connections,
// unless it became another file or breaks too often.
func TestMusicFileGoesOn(t *testing.T) {
	t.Parallel()
	whole := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	for name, c := range map[string]struct {
		breaks, lost int // connections that break, and bytes that are gone after that
		good         bool
	}{
		"one break": {breaks: 1, good: true}, "some breaks": {breaks: maxRefetched, good: true},
		"too many breaks": {breaks: maxRefetched + 1}, "another file": {breaks: 1, lost: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				file := whole
				if asked > 1 {
					file = whole[:len(whole)-c.lost]
				}
				w.Header().Set("Content-Length", strconv.Itoa(len(file)))
				if asked <= c.breaks {
					_, _ = w.Write(file[:asked*len(file)/8])
					panic(http.ErrAbortHandler)
				}
				_, _ = w.Write(file)
			}))
			defer s.Close()
			f := &musicFile{ctx: t.Context(), open: func(ctx context.Context) (*http.Response, error) {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
				if err != nil {
					return nil, err
				}
				return s.Client().Do(r)
			}}
			if err := f.fetch(); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(f)
			_ = f.Close() // only read
			if good := err == nil && bytes.Equal(got, whole); good != c.good {
				t.Errorf("%d of %d bytes, %v", len(got), len(whole), err)
			}
		})
	}
}
