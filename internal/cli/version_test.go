package cli

import (
	"runtime"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	d := blankDesk(t)
	var b build
	d.json(&b, "version")
	if b.Version == "" || b.Go != runtime.Version() || b.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("the build is %+v", b)
	}
	if got := d.ok("version"); !strings.HasPrefix(got, "patchbay "+b.Version) {
		t.Errorf("said %q", got)
	}
}
