package control

import (
	"encoding/json"
	"strings"
	"testing"
)

// The policies of nodes are read as their programs enforce them.
func TestReadRunPolicy(t *testing.T) {
	for policy, want := range map[string]string{
		`{"hash":"h","file":{"version":1}}`: RunEverything,
		`{"hash":"h","file":{"version":1},"resolvedDefaults":{"security":"allowlist","ask":"on-miss"}}`:                         RunAsk,
		`{"hash":"h","file":{"version":1,"defaults":{"security":"full","ask":"on-miss"}}}`:                                      RunEverything,
		`{"hash":"h","file":{"version":1,"defaults":{"security":"deny","ask":"always"}}}`:                                       RunNothing,
		`{"hash":"h","file":{"version":1,"defaults":{"security":"allowlist","ask":"off"}}}`:                                     RunListed,
		`{"hash":"h","file":{"version":1,"defaults":{"ask":"always"}}}`:                                                         RunAlwaysAsk,
		`{"hash":"h","file":{"version":1,"defaults":{"security":"deny"},"agents":{"main":{"security":"full","ask":"off"}}}}`:    RunEverything,
		`{"hash":"h","file":{"version":1,"agents":{"*":{"security":"allowlist","ask":"on-miss"},"main":{"security":"deny"}}}}`:  RunNothing,
		`{"hash":"h","file":{"version":1,"defaults":{"security":"deny"},"agents":{"main":{"security":"full","ask":"always"}}}}`: RunAlwaysAsk,
		`{"hash":"h","file":{"version":1,"agents":{"*":{"security":"deny"},"other":{"security":"full","ask":"off"}}}}`:          RunNothing,
		`{"enabled":true,"hash":"h","defaultAction":"prompt","rules":[]}`:                                                       RunAsk,
		`{"enabled":false}`: RunEverything,
	} {
		p, err := readRunPolicy([]byte(`{"nodeId":"n","policy":` + policy + `}`))
		if err != nil || p.Mode != want || p.Fixed != strings.Contains(policy, "enabled") {
			t.Errorf("%s is read as %+v, %v", policy, p, err)
		}
	}
}

// A change keeps what is not known here, and holds for all agents.
func TestChangeRunPolicy(t *testing.T) {
	p, err := readRunPolicy([]byte(`{"nodeId":"n","policy":{"hash":"h","file":{"version":1,"socket":{"path":"/s"},
		"defaults":{"autoAllowSkills":true,"security":"full"},"agents":{
		"main":{"security":"full","allowlist":[{"pattern":"/bin/ls"},{"pattern":"/bin/rm","argPattern":"^x$","new":1}]}}}}}`))
	if err != nil || len(p.Rules) != 2 || p.Rules[1].Rule != "/bin/rm ^x$" || p.Rules[0].Agent != "main" {
		t.Fatalf("%+v, %v", p, err)
	}
	var allow []execRule
	for _, text := range []string{"git status", "git log  --oneline *", "/bin/date", "make *", "echo a.b"} {
		rule, err := parseRunRule(text)
		if err != nil {
			t.Fatal(err)
		}
		allow = append(allow, rule)
	}
	if err := p.change(RunAsk, allow, []string{"/bin/ls"}); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"socket":{"path":"/s"}`, `"autoAllowSkills":true`, `"security":"allowlist"`,
		`"ask":"on-miss"`, `"askFallback":"deny"`, `"main":{"allowlist":[{"pattern":"/bin/rm","argPattern":"^x$","new":1}]}`,
		`{"pattern":"git","argPattern":"^status$"}`, `{"pattern":"git","argPattern":"^log --oneline( |$)"}`,
		`{"pattern":"/bin/date"}`, `{"pattern":"make"}`, `{"pattern":"echo","argPattern":"^a\\.b$"}`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if p, err = readRunPolicy([]byte(`{"policy":{"file":` + string(text) + `}}`)); err != nil || p.Mode != RunAsk ||
		len(p.Rules) != 6 || p.Rules[5].Agent != "main" {
		t.Errorf("%+v, %v", p, err)
	}
	if err := p.change("", nil, []string{"nothing"}); err == nil {
		t.Error("a rule that is not there was removed")
	}
	if _, err := parseRunRule("  "); err == nil {
		t.Error("nothing is a program")
	}
}
