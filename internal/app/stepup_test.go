package app

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/account"
	"patchbay/internal/netx"
)

// addHome adds a tool server with a dangerous tool, haus_reset.
func (s *oauthServer) addHome() {
	s.t.Helper()
	_, key, err := s.base.Accounts.AddKey(s.t.Context(), account.NewKey{Person: s.person, Name: "operator",
		Scopes: []string{account.ScopeOperator}})
	must(s.t, err)
	body := `{"name":"haus","kind":"mcp","settings":{"url":"` + home(s.t).URL + `"}}`
	ask := func(method, path, body string, out any) int {
		req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
		must(s.t, err)
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		must(s.t, err)
		defer resp.Body.Close()
		if out != nil {
			must(s.t, json.NewDecoder(resp.Body).Decode(out))
		}
		return resp.StatusCode
	}
	if status := ask(http.MethodPost, "/api/v1/upstreams", body, nil); status != http.StatusOK {
		s.t.Fatal(status)
	}
	for wait := (netx.Backoff{}); ; {
		var list struct{ Tools []struct{ Name string } }
		ask(http.MethodGet, "/api/v1/tools", "", &list)
		if slices.ContainsFunc(list.Tools, func(x struct{ Name string }) bool { return x.Name == "haus_reset" }) {
			return
		}
		must(s.t, netx.Wait(s.t.Context(), wait.Next()))
	}
}

func consentWith(dangerous string) url.Values {
	return url.Values{"decision": {"allow"}, "access": {"all"}, "days": {"0"}, "dangerous": {dangerous}}
}

// A program that was let in with "ask me" sees a dangerous tool, asks its person for more when it
// calls it, and calls it then. The first generation of the TypeScript SDK cannot ask for more: its
// call waits for an approval.
func TestOAuthStepUp(t *testing.T) {
	for _, version := range []string{"1", "2"} {
		t.Run(version, func(t *testing.T) {
			const redirect = "http://127.0.0.1:47113/callback"
			s := newOAuthServer(t, Options{})
			s.addHome()
			p := startOAuthProgram(t, version, s.url+"/mcp", redirect, "haus_reset")
			q := s.consent(p.next("authorize")["url"].(string), consentWith("ask"))
			p.send(redirect + "?" + q.Encode())
			if tools := p.next("listed")["tools"].([]any); !slices.Contains(tools, any("haus_reset")) {
				t.Fatalf("it sees %v", tools)
			}
			p.send("") // it calls the tool
			if version == "1" {
				for wait := (netx.Backoff{}); ; {
					list, err := s.base.Store.Approvals.Waiting(t.Context(), s.person, time.Now())
					must(t, err)
					if len(list) > 0 {
						s.page(http.MethodPost, s.url+"/approvals/"+list[0].ID, url.Values{"decision": {"once"}})
						break
					}
					must(t, netx.Wait(t.Context(), wait.Next()))
				}
				if e := p.next("called"); strings.Contains(toJSON(t, e), `"isError":true`) {
					t.Errorf("%v", e)
				}
				return
			}
			at := p.next("authorize")["url"].(string)
			if u, err := url.Parse(at); err != nil || !slices.Contains(strings.Fields(u.Query().Get("scope")),
				account.ScopeDangerous) {
				t.Errorf("it asks with %s", at)
			}
			if _, text, _ := s.page(http.MethodGet, at, nil); !strings.Contains(text, "Now it asks for more") ||
				!strings.Contains(text, `value="ask" checked`) {
				t.Errorf("the page does not say what is new: %s", text)
			}
			q = s.consent(at, consentWith("allow"))
			p.send(redirect + "?" + q.Encode())
			if e := p.next("called"); !strings.Contains(toJSON(t, e), "content") || strings.Contains(toJSON(t, e), `"isError":true`) {
				t.Errorf("%v", e)
			}
		})
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return string(text)
}

// Whatever a person decides in the end is what the program may do.
func TestOAuthStepUpDecisions(t *testing.T) {
	s := newOAuthServer(t, Options{})
	s.addHome()
	for _, c := range []struct {
		first, second string
		consents      int
		want          string // of the result or the error; "hidden"
	}{
		{"off", "", 1, "hidden"},
		{"ask", "off", 2, "dangerous"},
		{"ask", "allow", 2, "done"},
	} {
		s.client = s.register().id // the SDK would register itself again, as a program that is new
		answer, consents := consentWith(c.first), 0
		session, err := s.sdkAnswering("/mcp", func() url.Values {
			if consents++; consents > 1 {
				answer = consentWith(c.second)
			}
			return answer
		})
		must(t, err)
		tools, err := session.ListTools(t.Context(), nil)
		must(t, err)
		listed := slices.ContainsFunc(tools.Tools, func(x *mcp.Tool) bool { return x.Name == "haus_reset" })
		if listed == (c.want == "hidden") {
			t.Errorf("%s: listed %t", c.first, listed)
		}
		if c.want == "hidden" {
			continue
		}
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "haus_reset"})
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case res.IsError:
			got = toJSON(t, res)
		default:
			got = "done"
		}
		if !strings.Contains(got, c.want) || consents != c.consents {
			t.Errorf("%s, then %s: %s, after %d consents", c.first, c.second, got, consents)
		}
	}
}
