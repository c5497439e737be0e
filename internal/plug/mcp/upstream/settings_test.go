package upstream

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/settings"
)

func TestValidate(t *testing.T) {
	url := "https://example.com/mcp"
	for name, c := range map[string]struct {
		s    Settings
		want string // of the error; empty: valid
	}{
		"an address": {Settings{URL: url}, ""},
		"all of it": {Settings{URL: url, Token: "t", Headers: map[string]string{"X-A": "b"},
			Allow: []string{"*"}, Deny: []string{"a*"}, Timeout: settings.Duration(time.Second), Concurrent: 1, MaxTools: 1},
			""},
		"a command": {Settings{Command: "npx", Args: []string{"-y", "x"}, Env: map[string]string{"A": ""}},
			""},
		"nothing":           {Settings{}, "url is missing"},
		"both":              {Settings{URL: url, Command: "npx"}, "keep url or command"},
		"both, http":        {Settings{Transport: HTTP, URL: url, Command: "npx"}, "keep url or command"},
		"no such transport": {Settings{Transport: "ws", URL: url}, "choose http, sse, stdio or openapi"},
		"stdio without":     {Settings{Transport: Stdio}, "command is missing"},
		"not an address":    {Settings{URL: "secret:// x"}, "url is not a web address"},
		"ftp":               {Settings{URL: "ftp://example.com"}, "url is not a web address"},
		"a password":        {Settings{URL: "https://me:secret@example.com"}, "put the secret into token"},
		"a line break":      {Settings{URL: url, Token: "secret\n"}, "copy it again"},
		"a header's name":   {Settings{URL: url, Headers: map[string]string{"a b": ""}}, "cannot be the name"},
		"a header's value":  {Settings{URL: url, Headers: map[string]string{"A": "secret\n"}}, "the value of A"},
		"our own":           {Settings{URL: url, Headers: map[string]string{"mcp-Session-id": "x"}}, "cannot be set"},
		"a token for stdio": {Settings{Command: "x", Token: "secret"}, "secrets in env"},
		"a zero byte":       {Settings{Command: "x", Args: []string{"a\x00"}}, "zero byte"},
		"a bad name":        {Settings{Command: "x", Env: map[string]string{"A=B": "secret"}}, "names have no ="},
		"a long timeout":    {Settings{URL: url, Timeout: settings.Duration(48 * time.Hour)}, "timeout is"},
		"too many at once":  {Settings{URL: url, Concurrent: 1e6}, "concurrent is"},
		"too many tools":    {Settings{URL: url, MaxTools: 1e9}, "max_tools is"},
		"an empty pattern":  {Settings{URL: url, Deny: []string{""}}, "deny has an empty pattern"},
		"a thousand patterns": {Settings{URL: url, Allow: slices.Repeat([]string{"a"}, maxPatterns+1)},
			"allow has 1001 patterns"},
	} {
		err := c.s.Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil {
			lacks(t, name, err.Error(), "secret:", "secret\n", "secret@")
		}
	}
}

func TestSettingsJSON(t *testing.T) {
	var s Settings
	if err := json.Unmarshal([]byte(`{"url":"https://a/sse","timeout":" 1m30s","env":{"A":"b"}}`), &s); err != nil ||
		time.Duration(s.Timeout) != 90*time.Second {
		t.Fatalf("%+v, %v", s, err)
	}
	raw, err := json.Marshal(s)
	if want := `{"url":"https://a/sse","env":{"A":"b"},"timeout":"1m30s"}`; err != nil || string(raw) != want {
		t.Errorf("%s, %v, want %s", raw, err, want)
	}
	for _, bad := range []string{`30`, `"30"`, `"soon"`} {
		if json.Unmarshal([]byte(`{"timeout":`+bad+`}`), &s) == nil {
			t.Errorf("timeout %s is taken", bad)
		}
	}
}

func TestTransport(t *testing.T) {
	for _, c := range []struct {
		s    Settings
		want string
	}{
		{Settings{URL: "https://a/sse"}, SSE},
		{Settings{URL: "https://a/b/sse/?x=1"}, SSE},
		{Settings{URL: "https://a/mcp"}, HTTP},
		{Settings{URL: "https://a/?x=/sse"}, HTTP},
		{Settings{URL: "https://a/sse", Transport: HTTP}, HTTP},
		{Settings{Command: "x"}, Stdio},
	} {
		if got := c.s.transport(); got != c.want {
			t.Errorf("%+v is %s, want %s", c.s, got, c.want)
		}
	}
}
