// Package upgrade reads the feed of releases: a JSON file that describes the newest one. It only
// tells; nothing is downloaded or installed.
package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"patchbay/internal/i18n"
)

// Release is the newest release, as the file latest.json of a release describes it.
type Release struct {
	Version  string `json:"version"`            // such as v1.4.0
	Released string `json:"released,omitempty"` // the day, such as 2026-12-01
	URL      string `json:"url,omitempty"`      // where its files are
	Notes    string `json:"notes,omitempty"`    // one or a few lines about what is new
}

const (
	// requestTimeout limits the whole request.
	requestTimeout = 15 * time.Second
	// maxFeed limits the feed in bytes, and maxText each of its texts in characters.
	maxFeed, maxText = 64 << 10, 1000
)

const (
	msgNoFeed     = i18n.Message("there is no feed of releases: set upgrade.feed to the address of its latest.json, or give --feed")
	msgBadFeed    = i18n.Message("the feed of releases must be an address such as https://board.example.org/latest.json")
	msgUnreached  = i18n.Message("the feed of releases at %s cannot be reached: %v")
	msgBadAnswer  = i18n.Message("the feed of releases at %s answered %d")
	msgUnreadable = i18n.Message("what the feed of releases at %s says cannot be read: it has to be a latest.json with a version such as v1.4.0")
)

// Dial connects to an address, as [net.Dialer] does, or refuses it.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Latest reads the feed at an address.
func Latest(ctx context.Context, address string, dial Dial) (Release, error) {
	if address == "" {
		return Release{}, msgNoFeed.Errorf()
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return Release{}, msgBadFeed.Errorf()
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true, MaxResponseHeaderBytes: maxFeed}
	client := &http.Client{Transport: transport, Timeout: requestTimeout}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Release{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the address is in the message
		}
		return Release{}, msgUnreached.Errorf(u.Host, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Release{}, msgBadAnswer.Errorf(u.Host, resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxFeed))
	if err != nil {
		return Release{}, msgUnreached.Errorf(u.Host, err)
	}
	r, ok := parse(text)
	if !ok {
		return Release{}, msgUnreadable.Errorf(u.Host)
	}
	return r, nil
}

// parse reads a feed. Its texts are shown in terminals, so they are made harmless.
func parse(text []byte) (Release, bool) {
	var r Release
	if json.Unmarshal(text, &r) != nil {
		return r, false
	}
	if _, ok := parseVersion(r.Version); !ok {
		return r, false
	}
	for _, s := range []*string{&r.Version, &r.Released, &r.URL, &r.Notes} {
		*s = harmless(*s)
	}
	return r, true
}

func harmless(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' {
			return -1
		}
		return c
	}, text)
	if r := []rune(text); len(r) > maxText {
		text = string(r[:maxText]) + "…"
	}
	return text
}

// Newer reports whether a version is newer than that of this program. Known is false if one of them
// is no released version, such as v1.4.0 or v1.5.0-rc.1.
func Newer(version, own string) (newer, known bool) {
	a, okA := parseVersion(version)
	b, okB := parseVersion(own)
	return okA && okB && a.compare(b) > 0, okA && okB
}

// semver is a version by Semantic Versioning 2.0.0, without build metadata.
type semver struct {
	numbers [3]uint64
	pre     []string
}

func parseVersion(text string) (v semver, ok bool) {
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "v"), "+")
	core, pre, hasPre := strings.Cut(text, "-")
	parts := strings.Split(core, ".")
	if len(parts) != len(v.numbers) || hasPre && pre == "" {
		return v, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return v, false
		}
		v.numbers[i] = n
	}
	if hasPre {
		v.pre = strings.Split(pre, ".")
	}
	return v, true
}

// compare compares by precedence (Semantic Versioning 2.0.0, item 11).
func (v semver) compare(o semver) int {
	for i, n := range v.numbers {
		if n != o.numbers[i] {
			return sign(n > o.numbers[i])
		}
	}
	if len(v.pre) == 0 || len(o.pre) == 0 {
		return len(o.pre) - len(v.pre) // a release is newer than what came before it
	}
	for i, a := range v.pre {
		if i >= len(o.pre) {
			return 1
		}
		if c := compareIdentifiers(a, o.pre[i]); c != 0 {
			return c
		}
	}
	return len(v.pre) - len(o.pre)
}

func compareIdentifiers(a, b string) int {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	switch {
	case errA == nil && errB == nil && x != y:
		return sign(x > y)
	case errA == nil && errB == nil:
		return 0
	case errA == nil || errB == nil:
		return sign(errB == nil) // numbers are lower than words
	}
	return strings.Compare(a, b)
}

func sign(positive bool) int {
	if positive {
		return 1
	}
	return -1
}
