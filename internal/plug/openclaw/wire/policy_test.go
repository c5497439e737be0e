package wire

import (
	"slices"
	"strings"
	"testing"
)

func TestPlatformOf(t *testing.T) {
	for _, c := range []struct{ platform, family, want string }{
		{"linux", "Linux", Linux}, {" Linux ", "LINUX", Linux}, {"linux", "", UnknownPlatform},
		{"linux", "mac", UnknownPlatform},
		{"macos", "Mac", MacOS}, {"macos 15.1", "Mac", MacOS}, {"macos 15.1", "", UnknownPlatform},
		{"windows", "Windows", Windows},
		{"ios", "", IOS}, {"ios 18.4", "iPhone", IOS}, {"ios 18.4", "", UnknownPlatform},
		{"iPadOS 18.4.1", "iPad", IOS}, {"ios 18.4.1.2", "iphone", UnknownPlatform},
		{"android", "", Android}, {"android 15 (sdk 35)", "Android", Android},
		{"android 15 (sdk 35)", "", UnknownPlatform},
		{"watchos", "apple watch", WatchOS}, {"watchos", "", UnknownPlatform},
		{"esp32", "", UnknownPlatform}, {"esp32", "linux", UnknownPlatform}, {"", "My Linux box", Linux},
		{"", "", UnknownPlatform}, {"líNux", "linux", Linux},
	} {
		if got := PlatformOf(c.platform, c.family); got != c.want {
			t.Errorf("%q, %q: %s, not %s", c.platform, c.family, got, c.want)
		}
	}
	if c := (Client{ID: ClientNode, Platform: "linux"}).Complete(); PlatformOf(c.Platform, c.DeviceFamily) != Linux {
		t.Errorf("%+v", c)
	}
	if c := (Client{ID: ClientCLI, Platform: "linux"}).Complete(); c.DeviceFamily != "" {
		t.Errorf("%+v", c)
	}
}

// Of the commands that an esp32 node declared, a real gateway with mcp.tools.list allowed kept
// these.
func TestDeclarable(t *testing.T) {
	s := &Surface{Platform: "esp32", Declared: []string{
		"camera.list", "camera.snap", "location.get", "system.notify", "system.run", "talk.ptt.start", "mcp.tools.list",
		"self.custom", " camera.list",
		"worker.launch.v1",
	}}
	got := Policy{Allow: []string{"mcp.tools.list", "worker.launch.v1"}}.Declarable(s)
	want := []string{"camera.list", "location.get", "system.notify", "talk.ptt.start", "mcp.tools.list"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	linux := &Surface{Platform: "linux", Family: "Linux", Declared: []string{CommandTool, "system.run", "camera.list"}}
	if got := (Policy{}).Declarable(linux); !slices.Equal(got, []string{CommandTool, "system.run"}) {
		t.Errorf("%q", got)
	}
	for platform, family := range map[string]string{"linux": "Linux", "macos": "Mac", "windows": "Windows",
		"android": ""} {
		s := &Surface{Platform: platform, Family: family, Declared: []string{"ollama.models", "ollama.chat"}}
		if got := (Policy{}).Declarable(s); slices.Equal(got, s.Declared) != (platform != "android") {
			t.Errorf("on %s: %q", platform, got)
		}
	}
	if got := (Policy{Deny: []string{"system.run"}}).Declarable(linux); !slices.Equal(got, []string{CommandTool}) {
		t.Errorf("%q", got)
	}
	if got := (Policy{}).Effective(&Surface{Platform: "linux", Family: "Linux", Declared: linux.Declared,
		Approved: []string{CommandTool, "x"}}); !slices.Equal(got, []string{CommandTool}) {
		t.Errorf("%q", got)
	}
}

func TestRefuse(t *testing.T) {
	all := []string{CommandTool, "system.run", "system.notify", "camera.snap", "own.command", "fs.listDir",
		"talk.ptt.start"}
	write, admin := []string{ScopeWrite}, []string{ScopeAdmin}
	for _, c := range []struct {
		name     string
		policy   Policy
		approved []string
		command  string
		scopes   []string
		want     string // part of the message; empty: allowed
	}{
		{"a desktop's, approved", Policy{}, all, CommandTool, write, ""},
		{"a desktop's, not approved", Policy{}, []string{"system.notify"}, CommandTool, write,
			`not in the allowlist for platform "linux"`},
		{"approved and denied", Policy{Deny: []string{CommandTool}}, all, CommandTool, write,
			"blocked by gateway.nodes.commands.deny"},
		{"denied and allowed", Policy{Allow: []string{"own.command"}, Deny: []string{"own.command"}}, all,
			"own.command", write, "blocked by"},
		{"one's own", Policy{}, all, "own.command", write, "is not in the allowlist"},
		{"one's own, allowed", Policy{Allow: []string{" own.command "}}, all, "own.command", write, ""},
		{"one's own, with a pattern", Policy{Allow: []string{"own.*"}}, all, "own.command", write,
			"is not in the allowlist"},
		{"dangerous", Policy{}, all, "camera.snap", write, "requires explicit gateway.nodes.commands.allow opt-in"},
		{"dangerous, allowed", Policy{Allow: []string{"camera.snap"}}, all, "camera.snap", write, ""},
		{"for admins", Policy{}, all, "fs.listDir", write, "missing scope: operator.admin"},
		{"for admins, by one", Policy{}, all, "fs.listDir", admin, ""},
		{"approvals", Policy{}, all, "system.execApprovals.get", admin, "use exec.approvals.node"},
		{"private", Policy{Allow: []string{"worker.launch.v1"}}, all, "worker.launch.v1", admin,
			"private node controls"},
		{"to talk", Policy{}, all, "talk.ptt.start", write, ""},
		{"to talk otherwise", Policy{}, all, "talk.more", write, "requires a trusted Talk-capable node"},
		{"nothing approved", Policy{}, nil, "system.notify", write, "pending approval"},
		{"not declared", Policy{Allow: []string{"other"}}, all, "other", write,
			`(platform: linux) does not support "other"`},
		{"nothing declared", Policy{Allow: []string{"other"}}, nil, "other", write,
			"did not declare any supported commands"},
	} {
		s := &Surface{Platform: "linux", Family: "Linux", Declared: all, Approved: c.approved}
		e := c.policy.Refuse(s, c.command, c.scopes)
		if (e == nil) != (c.want == "") || e != nil && !strings.Contains(e.Message, c.want) {
			t.Errorf("%s: %v", c.name, e)
		}
	}
}

func TestScopes(t *testing.T) {
	for _, c := range []struct {
		method, role string
		scopes       []string
		want         *Error
	}{
		{MethodNodeList, RoleOperator, []string{ScopeRead}, nil},
		{MethodNodeList, RoleOperator, []string{ScopeWrite}, nil},
		{MethodNodeList, RoleOperator, []string{ScopePairing}, MissingScope(ScopeRead)},
		{MethodNodeInvoke, RoleOperator, []string{ScopeRead}, MissingScope(ScopeWrite)},
		{MethodNodeApprove, RoleOperator, []string{ScopeAdmin}, nil},
		{MethodNodeApprove, RoleOperator, []string{ScopeWrite}, MissingScope(ScopePairing)},
		{MethodNodeInvoke, RoleNode, nil, WrongRole(RoleNode)},
		{MethodInvokeResult, RoleNode, nil, nil},
		{MethodInvokeResult, RoleOperator, []string{ScopeAdmin}, WrongRole(RoleOperator)},
	} {
		got := CheckPermission(c.method, c.role, c.scopes)
		if (got == nil) != (c.want == nil) || got != nil && (got.Code != c.want.Code || got.Message != c.want.Message) {
			t.Errorf("%s as %s with %q: %v, not %v", c.method, c.role, c.scopes, got, c.want)
		}
	}
	for _, c := range []struct {
		commands []string
		want     string
	}{
		{nil, ScopePairing}, {[]string{"mcp.tools.call"}, ScopePairing + " " + ScopeWrite},
		{[]string{CommandTool, "system.which"}, ScopePairing + " " + ScopeAdmin},
	} {
		if got := strings.Join(ApproveScopes(c.commands), " "); got != c.want {
			t.Errorf("%q: %s", c.commands, got)
		}
	}
	if !MayKeepScopes(Client{ID: ClientCLI, Mode: ModeCLI}) || MayKeepScopes(Client{ID: ClientCLI, Mode: ModeBackend}) {
		t.Error("which clients keep their scopes without a device")
	}
}
