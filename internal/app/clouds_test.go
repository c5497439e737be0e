package app

import (
	"strings"
	"testing"
)

func TestCloudSettings(t *testing.T) {
	const address = "wss://api.example.com/mcp/?token=s3cret"
	for _, c := range []struct {
		s    CloudSettings
		want string // in the error; empty: none
	}{
		{CloudSettings{URL: address, Allow: []string{"lamp_*", "*"}, Deny: []string{"lamp_burn"}, Most: 8}, ""},
		{CloudSettings{URL: "ws://127.0.0.1:80", Allow: []string{"*"}}, ""},
		{CloudSettings{URL: address}, "allow is missing"},
		{CloudSettings{Allow: []string{"*"}}, "wss://"},
		{CloudSettings{URL: "https://api.example.com/?token=s3cret", Allow: []string{"*"}}, "wss://"},
		{CloudSettings{URL: "wss://s3cret@api.example.com/", Allow: []string{"*"}}, "wss://"},
		{CloudSettings{URL: "wss://api.example.com/%zz?token=s3cret", Allow: []string{"*"}}, "wss://"},
		{CloudSettings{URL: address, Allow: []string{"a b"}}, `"a b"`},
		{CloudSettings{URL: address, Allow: []string{"*"}, Deny: []string{""}}, `""`},
		{CloudSettings{URL: address, Allow: make([]string, 201)}, "200"},
		{CloudSettings{URL: address, Allow: []string{"*"}, Most: -1}, "most is -1"},
		{CloudSettings{URL: address, Allow: []string{"*"}, Most: 1001}, "most is 1001"},
	} {
		err := c.s.Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c.s, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v, want %q", c.s, err, c.want)
		case err != nil && strings.Contains(err.Error(), "s3cret"):
			t.Errorf("a secret is told: %v", err)
		}
	}
}
