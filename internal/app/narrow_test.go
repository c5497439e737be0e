package app

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/store"
)

// A bot calls no tool for a key that may not call that tool, on any path of the question; and no
// restricted key changes what a bot may do.
func TestNarrowKeyThroughBot(t *testing.T) {
	k := newKeep(t)
	_, deaf := k.key(account.NewKey{Scopes: []string{account.ScopeOperator}, Rules: `{"deny":["*"]}`})
	_, lit := k.key(account.NewKey{Scopes: []string{account.ScopeOperator},
		Rules: `{"allow":["lamp_*","send_message"]}`})
	_, wide := k.key(account.NewKey{Scopes: []string{account.ScopeOperator}})
	_, one := k.key(account.NewKey{Scopes: []string{account.ScopeOperator}, Bot: k.only.Number})
	for _, c := range []struct {
		who, secret string
		bot         store.Bot
		question    string
		want        []string
	}{
		{"a key without rules", wide, k.able, "call ear_record a", []string{"ear_record"}},
		{"a key that may call nothing", deaf, k.able, "call ear_record b", nil},
		{"a key that may call nothing", deaf, k.able, "call lamp_on c", nil},
		{"a key for lamps", lit, k.able, "call lamp_on d", []string{"lamp_on"}},
		{"a key for lamps", lit, k.able, "call ear_level e", nil},
		{"a key for lamps", lit, k.relay, fmt.Sprintf("ask %d: call lamp_on f", k.able.Number), []string{"lamp_on"}},
		{"a key for lamps", lit, k.relay, fmt.Sprintf("ask %d: call ear_record g", k.able.Number), nil},
		{"a key without rules", wide, k.relay, fmt.Sprintf("ask %d: call ear_record h", k.able.Number),
			[]string{"ear_record"}},
		{"a key for one bot", one, k.only, "call lamp_on i", []string{"lamp_on"}},
		{"a key for one bot", one, k.able, "call lamp_on j", nil},
	} {
		k.do(c.secret, http.MethodPost, "ask", map[string]any{"bot": fmt.Sprint(c.bot.Number), "text": c.question})
		if got := k.called(c.question[strings.LastIndexByte(c.question, ' ')+1:]); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q to %s has called %q, want %q", c.who, c.question, c.bot.Name, got, c.want)
		}
	}
	k.hub.WaitForCallRecords(t.Context())
	rows, err := k.base.Store.Calls.Newest(t.Context(), "", time.Now().Add(time.Minute), 500)
	if err != nil || !slices.ContainsFunc(rows, func(c store.Call) bool { return c.Bot != 0 }) {
		t.Errorf("no bot's call is in the audit trail: %v", err)
	}
	for _, c := range rows { // a bot's record has the address of the asker
		if c.Address == "" {
			t.Errorf("a row without an address: %+v", c)
		}
	}
	widening := map[string]any{"settings": map[string]any{"allow_tools": []string{"*"},
		"dangerous_tools": []string{"*"}}}
	for name, secret := range map[string]string{"may call nothing": deaf, "is for lamps": lit, "is for one bot": one} {
		if status, _ := k.do(secret, http.MethodPatch, fmt.Sprintf("bots/%d", k.only.Number),
			widening); status != http.StatusForbidden {
			t.Errorf("a key that %s changes a bot: %d", name, status)
		}
		if status, _ := k.do(secret, http.MethodPost, "bots",
			map[string]any{"name": "x", "kind": "openai", "settings": map[string]any{"base_url": k.model.URL,
				"model": "m"}}); status != http.StatusForbidden {
			t.Errorf("a key that %s adds a bot: %d", name, status)
		}
		if status, text := k.do(secret, http.MethodPost, "tools/lamp_on/call",
			map[string]any{"arguments": map[string]string{"tag": "direct " + name}}); secret != lit &&
			len(k.called("direct "+name)) > 0 {
			t.Errorf("a key that %s calls a tool by itself: %d %s", name, status, text)
		}
	}
	// Reviews by voice are for keys that may call the corresponding tools.
	for secret, want := range map[string]bool{wide: true, deaf: false, lit: false} {
		_, text := k.do(secret, http.MethodPost, "ask", map[string]any{"bot": "able", "text": "复习",
			"conversation": "c"})
		if strings.Contains(text, planted) != want {
			t.Errorf("asked to review: %s", text)
		}
	}
	// Settings made by a key obey the rules that the key has now.
	maker, secret := k.key(account.NewKey{Scopes: []string{account.ScopeOperator}})
	if status, text := k.do(secret, http.MethodPatch, fmt.Sprintf("bots/%d", k.able.Number),
		map[string]any{"settings": map[string]any{"temperature": 0.5}}); status != http.StatusOK {
		t.Fatal(status, text)
	}
	k.must(k.base.Store.Keys.SetRules(t.Context(), maker.ID, `{"deny":["ear_*"]}`))
	for question, want := range map[string][]string{"call ear_level k": nil, "call lamp_on l": {"lamp_on"}} {
		k.do(wide, http.MethodPost, "ask", map[string]any{"bot": "able", "text": question})
		if got := k.called(question[len(question)-1:]); !slices.Equal(got, want) {
			t.Errorf("after the key was narrowed that made its settings, %q has called %q, want %q", question, got,
				want)
		}
	}
}

// narrowed is a random key and what it obtains.
type narrowed struct {
	n       int
	k       *keep
	random  *rand.Rand
	rules   hub.Rules
	bot     int64 // the only bot of the key; 0: any
	kept    store.Key
	secrets []string // the key's own, and those it obtained
}

func (x *narrowed) tag() string { return fmt.Sprintf("key%d", x.n) }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// may reports, independently of the tested code, whether the key may cause a call of a tool:
// directly, or through its bot if it is for one bot.
func (x *narrowed) may(name string) bool {
	fits := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			prefix, any := strings.CutSuffix(p, "*")
			return name == p || any && strings.HasPrefix(name, prefix)
		})
	}
	ruled := len(x.rules.Allow)+len(x.rules.Deny)+len(x.rules.Dangerous) > 0
	return !fits(x.rules.Deny) && (len(x.rules.Allow) == 0 || fits(x.rules.Allow)) &&
		(name != "ear_record" || !ruled || fits(x.rules.Dangerous)) && (x.bot == 0 || strings.HasPrefix(name, "lamp_"))
}

// tools are the tools that keys try to call.
var tools = []string{"lamp_on", "lamp_off", "ear_record", "ear_level"}

func newNarrowed(k *keep, n int) *narrowed {
	x := &narrowed{n: n, k: k, random: rand.New(rand.NewPCG(7, uint64(n)))}
	r := x.random
	patterns := func() []string {
		return []string{pick(r, "lamp_*", "lamp_on", "ear_*", "ear_level", "send_message", "*", "nothing")}
	}
	switch r.IntN(4) {
	case 0:
		x.rules.Deny = patterns()
	case 1:
		x.rules.Allow = append(patterns(), patterns()...)
	case 2:
		x.rules.Allow, x.rules.Deny = patterns(), patterns()
	case 3:
		x.bot = k.only.Number
	}
	if r.IntN(8) == 0 {
		x.rules.Dangerous = []string{"ear_record"}
	}
	want := account.NewKey{
		Name: x.tag(), Rules: x.rules.String(), Bot: x.bot,
		Scopes: pick(r, []string{account.ScopeOperator}, []string{account.ScopeOperator}, []string{account.ScopeAdmin},
			[]string{account.ScopeLearn, account.ScopeOperator}),
	}
	if r.IntN(2) == 0 {
		want.Expires = time.Hour
	}
	var secret string
	x.kept, secret = k.key(want)
	x.secrets = []string{secret}
	return x
}

// step does one operation with one of the secrets that the key has so far.
func (x *narrowed) step() {
	k, r := x.k, x.random
	secret, name := pick(r, x.secrets...), pick(r, tools...)
	bot := pick(r, k.able, k.able, k.only, k.relay)
	call := "call " + name + " " + x.tag()
	if bot.Number == k.relay.Number {
		call = fmt.Sprintf("ask %d: %s", k.able.Number, call)
	}
	type object = map[string]any
	all := object{"allow_tools": []string{"*"}, "dangerous_tools": []string{"*"}, "base_url": k.model.URL, "model": "m"}
	ops := []func() (int, string){
		func() (int, string) {
			return k.do(secret, "POST", "tools/"+name+"/call", object{"arguments": object{"tag": x.tag()}})
		},
		func() (int, string) { return k.do(secret, "POST", "ask", object{"bot": bot.Name, "text": call}) },
		func() (int, string) { return k.do(secret, "POST", "ask", object{"bot": bot.Name, "text": call}) },
		func() (int, string) {
			return k.do(secret, "POST", "tools/send_message/call",
				object{"arguments": object{"botId": bot.Name, "message": call}})
		},
		func() (int, string) { return k.do(secret, "POST", "ask", object{"bot": x.tag(), "text": call}) },
		func() (int, string) {
			return k.do(secret, "POST", "ask", object{"bot": bot.Name, "text": "复习", "conversation": x.tag()})
		},
		func() (int, string) { return k.do(secret, "GET", "learn/points", nil) },
		func() (int, string) {
			return k.do(secret, "POST", "bots", object{"name": x.tag(), "kind": "openai", "settings": all})
		},
		func() (int, string) { return k.do(secret, "PATCH", "bots/"+bot.Name, object{"settings": all}) },
		func() (int, string) { return k.do(secret, "POST", "bots/"+bot.Name+"/rotate", nil) },
		func() (int, string) { return k.do(secret, "POST", "bots/"+bot.Name+"/invite", nil) },
		func() (int, string) { return k.do(secret, "POST", "bots/"+bot.Name+"/keys", object{"name": x.tag()}) },
		func() (int, string) {
			return k.do(secret, "POST", "keys", object{"name": x.tag(), "scopes": []string{"operator", "mcp"}})
		},
		func() (int, string) { return k.do(secret, "PATCH", "keys/"+x.kept.ID, object{"rules": object{}}) },
		func() (int, string) { return k.do(secret, "POST", "tools/"+name+"/rule", object{"rule": "allow"}) },
		func() (int, string) {
			return k.do(secret, "POST", "upstreams", object{"name": x.tag(), "kind": "endpoint", "settings": object{}})
		},
		func() (int, string) {
			return k.do(secret, "POST", "devices/approve", object{"code": k.code, "bot": k.able.Name})
		},
		func() (int, string) {
			return k.do(secret, "PATCH", fmt.Sprintf("devices/%d", k.lamp.Number),
				object{"name": x.tag(), "bot": k.able.Name})
		},
		func() (int, string) { return k.do(secret, "DELETE", fmt.Sprintf("devices/%d", k.lamp.Number), nil) },
		func() (int, string) { return k.do(secret, "POST", "pairs/"+k.pair+"/approve", nil) },
		func() (int, string) { return k.do(secret, "POST", "people/"+k.ada.ID+"/password", object{}) },
		func() (int, string) { return k.do(secret, "POST", "people", object{"name": x.tag(), "role": "admin"}) },
	}
	status, text := pick(r, ops...)()
	if strings.Contains(text, planted) && !x.may("list_knowledge_points") {
		k.t.Errorf("key %d (%s, bot %d) reads what its person learns: %d %s", x.n, x.kept.Rules, x.bot, status, text)
	}
	for _, found := range handed.FindAllStringSubmatch(text, -1) {
		k.t.Errorf("key %d (%s, bot %d) got %s with status %d", x.n, x.kept.Rules, x.bot, found[0], status)
		if strings.HasPrefix(found[1], "pb_") {
			x.secrets = append(x.secrets, found[1])
		}
	}
}

// handed matches credentials in a response.
var handed = regexp.MustCompile(`"(?:key|sdk_token|token|password)":"([^"]+)"|"code":"([0-9]+)"|sk-planted[a-z-]*`)

// No five operations of a restricted key give it more than it has: no tool, secret, expiry or
// device beyond its own rights.
func TestNarrowKeysStayNarrow(t *testing.T) {
	k := newKeep(t)
	before := k.state()
	const keys, steps = 1000, 5
	next := make(chan int)
	var crew sync.WaitGroup
	for range 8 {
		crew.Go(func() {
			for n := range next {
				x := newNarrowed(k, n)
				for range steps {
					x.step()
				}
				for _, name := range k.called(x.tag()) {
					if !x.may(name) {
						t.Errorf("key %d (%s, bot %d) reached %s", n, x.kept.Rules, x.bot, name)
					}
				}
			}
		})
	}
	for n := range keys {
		next <- n
	}
	close(next)
	crew.Wait()
	if after := k.state(); after != before {
		t.Errorf("what there is has changed from %s to %s", before, after)
	}
	reached := 0
	for n := range keys {
		reached += len(k.called(fmt.Sprintf("key%d", n)))
	}
	if reached < keys/20 {
		t.Errorf("%d calls came through in all: the operations that are tried do nothing", reached)
	}
}

// state returns everything that a key could change to its advantage.
func (k *keep) state() string {
	k.t.Helper()
	ctx, db := k.t.Context(), k.base.Store
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	bots, err := db.Bots.ByOwner(ctx, "")
	k.must(err)
	for _, b := range bots {
		add("bot %s v%d", b.Name, b.Version)
	}
	devices, err := db.Devices.Search(ctx, store.DeviceSearch{Limit: 100})
	k.must(err)
	for _, d := range devices {
		add("device %s of %s at %d", d.Name, d.Owner, d.Bot)
	}
	keys, err := db.Keys.ByPerson(ctx, "")
	k.must(err)
	for _, made := range keys {
		if made.Parent != "" || !made.Revoked.IsZero() {
			add("key %s", made.Name)
		}
	}
	rules, err := db.ToolRules.All(ctx)
	k.must(err)
	add("%d rules", len(rules))
	people, err := db.People.All(ctx)
	k.must(err)
	for _, p := range people {
		add("person %s %s", p.Name, p.Password)
	}
	upstreams, err := db.Upstreams.ByOwner(ctx, k.ada.ID)
	k.must(err)
	add("%d upstreams", len(upstreams))
	_, err = db.Peers.RequestByID(ctx, k.pair, time.Now())
	add("the node waits: %v", err)
	return strings.Join(out, "; ")
}
