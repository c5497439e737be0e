package mcp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// compared is a server as it is seen directly, and through Patchbay as "srv".
type compared struct {
	*testing.T
	direct, through *sdk.ClientSession
	// links are those in results, as they are directly.
	links map[string]bool
}

// clock matches the time of day, and the id of a session, which some servers put into their
// results.
var clock = regexp.MustCompile(`\d{1,2}:\d\d:\d\d|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// ours says how a name and a URI of the server are asked for: through Patchbay they are mapped.
type ours bool

func (o ours) name(name string) string {
	if o {
		return "srv_" + name
	}
	return name
}

func (o ours) uri(uri string) string {
	if scheme, rest, ok := strings.Cut(uri, "://"); ok && bool(o) {
		return scheme + "://srv/" + rest
	}
	return uri
}

// unmapped returns a text without what Patchbay maps.
func unmapped(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "srv_", ""), "://srv/", "://")
}

// plainJSON returns a value as it is written in JSON, without what differs
// from process to process.
func plainJSON(t *testing.T, v any) (out any) {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	must(t, json.Unmarshal(clock.ReplaceAll(text, []byte("TIME")), &out))
	return out
}

// normal returns a value as JSON without what Patchbay maps and adds.
func (c *compared) normal(v any) any {
	c.Helper()
	text, err := json.Marshal(plainJSON(c.T, v))
	must(c.T, err)
	var out any
	must(c.T, json.Unmarshal([]byte(unmapped(string(text))), &out))
	return withoutOurs(out)
}

func withoutOurs(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutOurs(v[i])
		}
	case map[string]any:
		if blob, ok := v["blob"].(string); ok { // may have the time of day too
			if text, err := base64.StdEncoding.DecodeString(blob); err == nil {
				v["blob"] = clock.ReplaceAllString(string(text), "TIME")
			}
		}
		for name := range v {
			if v[name] = withoutOurs(v[name]); strings.HasPrefix(name, "patchbay/") || name == "_meta" && v[name] == nil ||
				name == "execution" || // tasks are not passed on
				name == metaServer || name == "resultType" || name == "ttlMs" || name == "cacheScope" { // of the revision
				delete(v, name)
			}
		}
		if len(v) == 0 {
			return nil
		}
	}
	return v
}

// metaServer is what the revision without sessions says in each result.
const metaServer = "io.modelcontextprotocol/serverInfo"

// linksIn calls found with each link in a result: the members that lead to something at a server.
// Structured results have none: they are data in a form of the tool's own.
func linksIn(v any, found func(uri string)) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			linksIn(x, found)
		}
	case map[string]any:
		for name, x := range v {
			uri, isText := x.(string)
			if isText && slices.Contains([]string{"uri", "uriTemplate", "resourceUri", "ui/resourceUri"}, name) {
				found(uri)
			}
			if name != "structuredContent" {
				linksIn(x, found)
			}
		}
	}
}

// equal compares what came directly with what came through Patchbay. Each link that came through
// has to lead to Patchbay's own name of what the link leads to directly.
func (c *compared) equal(what string, want, got any) {
	c.Helper()
	var there []string
	linksIn(plainJSON(c.T, want), func(uri string) { there = append(there, uri) })
	linksIn(plainJSON(c.T, got), func(uri string) {
		own := unmapped(uri)
		if ours(true).uri(own) != uri || !slices.Contains(there, own) {
			c.Errorf("%s: the link %s is not one of %q, mapped", what, uri, there)
		}
		if !strings.Contains(own, "{") {
			c.links[own] = true
		}
	})
	if diff := cmp.Diff(c.normal(want), c.normal(got)); diff != "" {
		c.Errorf("%s, - directly, + through Patchbay:\n%.3000s", what, diff)
	}
}

// list compares a list of both, sorted by name, and returns the names or URIs.
func (c *compared) list(what string, of func(*sdk.ClientSession) (any, error)) (out []string) {
	c.Helper()
	byName := func(x *sdk.ClientSession) map[string]any {
		v, err := of(x)
		must(c.T, err)
		all := map[string]any{}
		entries, _ := plainJSON(c.T, v).([]any)
		for _, e := range entries {
			m, _ := e.(map[string]any)
			name, _ := m["uri"].(string)
			if uri, ok := m["uriTemplate"].(string); ok {
				name = uri
			}
			if name == "" {
				name, _ = m["name"].(string)
			}
			all[unmapped(name)] = e
		}
		return all
	}
	want, got := byName(c.direct), byName(c.through)
	if what == "prompts" {
		delete(got, "use") // the one of Patchbay
	}
	c.equal(what, want, got)
	out = slices.Sorted(maps.Keys(want)) // both get the calls in the same order
	c.Logf("%d %s", len(out), what)
	return out
}

// same compares a result, or an error, of both, which are asked at the same time.
func (c *compared) same(what string, do func(x *sdk.ClientSession, own ours) (any, error)) {
	c.Helper()
	var want, got any
	var err, err2 error
	var both sync.WaitGroup
	both.Go(func() { want, err = do(c.direct, false) })
	both.Go(func() { got, err2 = do(c.through, true) })
	both.Wait()
	if err == nil && err2 == nil {
		c.equal(what, want, got)
		return
	}
	directly, through := textOf(err), unmapped(textOf(err2))
	if strings.Contains(directly, "ot found") && missing.MatchString(through) {
		return
	}
	if directly != through {
		c.Errorf("%s:\ndirectly        %s\nthrough Patchbay %s", what, directly, through)
	}
}

// missing matches what Patchbay says of itself about what no server has, in the words of the
// protocol: it asks several.
var missing = regexp.MustCompile(`^-32(002: Resource not found|602: (Resource not found|Unknown prompt: \S+))$`)

// textOf returns code and text of an error.
func textOf(err error) string {
	if e, ok := errors.AsType[*sdkrpc.Error](err); ok {
		return fmt.Sprintf("%d: %s", e.Code, e.Message)
	}
	return fmt.Sprint(err)
}
