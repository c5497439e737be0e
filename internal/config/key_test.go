package config

import (
	"regexp"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	path := regexp.MustCompile(`^[a-z]+(_[a-z]+)*(\.[a-z]+(_[a-z]+)*)?$`)
	seen := map[string]string{EnvConfig: "command line", EnvServer: "command line", EnvKey: "command line"}
	once := func(k Key, names ...string) {
		for _, n := range names {
			if other, twice := seen[n]; twice {
				t.Errorf("%s of %s belongs to %s too", n, k.Path, other)
			}
			seen[n] = k.Path
		}
	}
	for _, k := range Keys() {
		if !path.MatchString(k.Path) {
			t.Errorf("%s is no simple path", k.Path)
		}
		if len(k.Path) > maxCompared {
			t.Errorf("%s is too long to be suggested", k.Path)
		}
		if k.Doc == "" || !strings.HasSuffix(k.Doc, ".") {
			t.Errorf("%s is not explained in a sentence: %q", k.Path, k.Doc)
		}
		if notSetting(k.Env, "x") {
			t.Errorf("%s would be taken for a foreign variable", k.Env)
		}
		if strings.ContainsAny(k.Doc, "\n\t`") {
			t.Errorf("%s: the explanation does not fit in a table", k.Path)
		}
		switch k.Type {
		case Number, Duration, Bytes:
			if k.min == nil || k.max == nil {
				t.Errorf("%s has no bounds", k.Path)
			}
		}
		once(k, k.Path, k.Env, k.Flag)
		if k.Secret {
			once(k, k.Path+fileKey, k.Env+fileEnv, k.Flag+fileFlag)
		}
	}
	for g, group := range known.groups {
		if !strings.HasSuffix(group.doc, ".") {
			t.Errorf("group %s is not explained", g)
		}
	}
	var url Key
	for _, k := range Keys() {
		if k.Path == "database.url" {
			url = k
		}
	}
	if url.Env != "PATCHBAY_DATABASE_URL" || url.Flag != "--database-url" || !url.Secret || url.Type != Text {
		t.Errorf("database.url is %+v", url)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"listen", "listen", 0}, {"lisen", "listen", 1},
		{"listenn", "listen", 1}, {"lisden", "listen", 1}, {"litsen", "listen", 1}, {"nelist", "listen", 4},
		{"ca", "abc", 3},
	} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
