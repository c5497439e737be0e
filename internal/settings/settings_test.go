package settings

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/seal"
)

// robot is a struct of settings.
type robot struct {
	shared
	URL   string            `json:"url"`
	Token string            `json:"token,omitempty" secret:"true" to:"url"`
	Env   map[string]string `json:"env,omitempty" secret:"true"`
	Wait  Duration          `json:"wait,omitempty"`
	Loud  bool              `json:"loud,omitempty"`
	Kind  *bool             `json:"kind,omitempty"`
	Names []string          `json:"names,omitempty"`
	Share float64           `json:"share,omitempty"`
	//lint:ignore U1000 a field that is not exported is no setting
	private int
}

type shared struct {
	Most int `json:"most,omitempty"`
}

func (s *robot) Validate() error {
	_, err := ParseAddress("url", s.URL, "https://example.com", "token")
	return err
}

var robots = Schema{func() any { return new(robot) }}

func TestForms(t *testing.T) {
	forms := map[string]Form{}
	for _, f := range robots.Fields() {
		forms[f.Name] = f.Form()
		if f.Required != (f.Name == "url") || f.Secret != (f.Name == "token" || f.Name == "env") {
			t.Errorf("%+v", f)
		}
	}
	want := map[string]Form{"most": FormInteger, "url": FormText, "token": FormText, "env": FormObject,
		"wait": FormDuration, "loud": FormBool, "kind": FormOptionalBool, "names": FormList, "share": FormNumber}
	if diff := cmp.Diff(want, forms); diff != "" {
		t.Error(diff)
	}
}

func TestChange(t *testing.T) {
	r := &robot{URL: "https://a.example/x", Token: "secret", Names: []string{"old"}}
	dropped, err := ChangeStruct(r, map[string]string{"wait": "1d", "loud": "yes", "kind": "off", "names": "a, b,",
		"share": "0.5", "most": "3", "env": `{"A":"1"}`, "url": "https://a.example/y"})
	no := false
	want := &robot{shared: shared{3}, URL: "https://a.example/y", Token: "secret", Env: map[string]string{"A": "1"},
		Wait: Duration(24 * time.Hour), Loud: true, Kind: &no, Names: []string{"a", "b"}, Share: 0.5}
	if err != nil || dropped != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, dropped %v, %v", r, dropped, err)
	}
	// A secret is not sent to another origin than it was given for.
	if dropped, err = ChangeStruct(r, map[string]string{"url": "https://b.example", "wait": ""}); err != nil ||
		len(dropped) != 1 || dropped[0] != "token" || r.Token != "" || r.Wait != 0 {
		t.Errorf("got %+v, dropped %v, %v", r, dropped, err)
	}
	for name, want := range map[string]string{"most": "a number", "wait": "a duration", "loud": "true or false",
		"env": "a JSON object", "colour": "no setting is called"} {
		if _, err := ChangeStruct(r, map[string]string{name: "blue"}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecrets(t *testing.T) {
	box, err := seal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	values := func() Values {
		return Values{"url": json.RawMessage(`"https://a.example"`), "token": json.RawMessage(`"the token"`),
			"env": json.RawMessage(`{"A":"the value"}`)}
	}
	stored, err := robots.Seal(box, values())
	if err != nil || strings.Contains(string(stored), "the token") || strings.Contains(string(stored), "the value") {
		t.Fatalf("stored as %s, %v", stored, err)
	}
	opened, err := robots.Unseal(box, stored)
	if diff := cmp.Diff(values(), opened); err != nil || diff != "" {
		t.Error(err, diff)
	}
	// A stored secret whose address was changed is not opened.
	moved := strings.Replace(string(stored), "a.example", "b.example", 1)
	if opened, err = robots.Unseal(box, json.RawMessage(moved)); err != nil || opened["token"] != nil {
		t.Errorf("got %s, %v", opened, err)
	}
	masked, err := MaskStruct(&robot{URL: "https://a.example", Token: "the token", Env: map[string]string{"A": "the value"}})
	if err != nil || Text(masked["token"]) != Masked || string(masked["env"]) != `{"A":"`+Masked+`"}` {
		t.Errorf("got %s, %v", masked, err)
	}
}

func TestChecks(t *testing.T) {
	for name, ok := range map[string]bool{"X-Key": true, "Content-Type": false, "mcp-name": false, "a b": false} {
		if err := CheckHeaders(map[string]string{name: "v"}, "mcp-name"); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if CheckHeaders(map[string]string{"X": "a\nb"}) == nil || CheckCredential("token", "t ") == nil ||
		CheckCredential("token", "t") != nil {
		t.Error("invalid values are accepted, or valid ones are not")
	}
	for address, ok := range map[string]bool{"https://a.example/x": true, " http://a.example": true, "ftp://a": false,
		"a.example": false, "https://me:pw@a.example": false} {
		if _, err := ParseAddress("url", address, "https://x", "token"); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		} else if err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: the error quotes a secret: %v", address, err)
		}
	}
}

func TestDuration(t *testing.T) {
	const refused = time.Duration(math.MinInt64)
	for _, tt := range []struct {
		text string
		want time.Duration
		back string
	}{
		{"0", 0, "0s"}, {"0s", 0, "0s"}, {"7s", 7 * time.Second, "7s"}, {"60s", time.Minute, "1m"},
		{"10m", 10 * time.Minute, "10m"},
		{"1h", time.Hour, "1h"}, {"90m", 90 * time.Minute, "1h30m"}, {"1h0m1s", time.Hour + time.Second, "1h0m1s"},
		{"100ms", 100 * time.Millisecond, "100ms"},
		{"24h", day, "1d"}, {"7d", 7 * day, "7d"}, {"1d12h", 36 * time.Hour, "36h"}, {" 30d ", 30 * day, "30d"},
		{"0d", 0, "0s"}, {"0d5s", 5 * time.Second, "5s"},
		{"-5s", -5 * time.Second, "-5s"}, {"-24h", -day, "-24h"}, {"106751d", 106751 * day, "106751d"},
		{"106752d", refused, ""}, {"106751d24h", refused, ""}, {"-1d", refused, ""}, {"1d-1h", refused, ""},
		{"1.5d", refused, ""},
		{"d", refused, ""}, {"1dd", refused, ""}, {"1h1d", refused, ""}, {"1d 1h", refused, ""}, {"60", refused, ""},
		{"", refused, ""}, {"soon", refused, ""}, {"1w", refused, ""},
	} {
		got, err := ParseDuration(tt.text)
		if tt.want == refused {
			if err == nil {
				t.Errorf("%q is accepted as %v", tt.text, got)
			}
			continue
		}
		if err != nil || got != tt.want || FormatDuration(got) != tt.back {
			t.Errorf("%q is %v (%s), %v; want %v, %s", tt.text, got, FormatDuration(got), err, tt.want, tt.back)
		}
		if again, err := ParseDuration(FormatDuration(got)); err != nil || again != got {
			t.Errorf("%q comes back as %v, %v", FormatDuration(got), again, err)
		}
	}
}
