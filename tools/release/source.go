package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// source is the commit that a release is made from.
type source struct {
	version string // of Semantic Versioning, without v
	commit  string // hexadecimal
	time    time.Time
	dirty   bool // files differ from the commit
}

// versionForm has no build metadata ("+..."): tags of images cannot contain it.
var versionForm = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z]+([.-][0-9A-Za-z]+)*)?$`)

// readSource asks git. version is the one from the command line, or "".
func readSource(ctx context.Context, root, version string) (source, error) {
	head, err := git(ctx, root, "show", "-s", "--format=%H %ct", "HEAD")
	if err != nil {
		return source{}, err
	}
	commit, seconds, _ := strings.Cut(head, " ")
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" { // https://reproducible-builds.org/specs/source-date-epoch/
		seconds = epoch
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("time of the commit, or SOURCE_DATE_EPOCH: %w", err)
	}
	changed, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return source{}, err
	}
	s := source{version: strings.TrimPrefix(version, "v"), commit: commit, time: time.Unix(unix, 0).UTC(),
		dirty: changed != ""}
	if s.version == "" {
		tags, err := git(ctx, root, "tag", "--points-at", "HEAD")
		if err != nil {
			return source{}, err
		}
		s.version = s.defaultVersion(strings.Fields(tags))
	}
	if !versionForm.MatchString(s.version) {
		return source{}, fmt.Errorf("%q is no version such as 1.2.3 or 1.2.3-rc.1", s.version)
	}
	return s, nil
}

// defaultVersion is the tag of a clean commit. Other sources get one that sorts before every
// release, and among each other by time.
func (s source) defaultVersion(tags []string) string {
	for _, tag := range tags {
		if v := strings.TrimPrefix(tag, "v"); !s.dirty && versionForm.MatchString(v) {
			return v
		}
	}
	version := "0.0.0-dev." + s.time.Format("20060102150405") + ".g" + s.commit[:min(12, len(s.commit))]
	if s.dirty {
		version += ".dirty"
	}
	return version
}

// git runs git in the source tree, and returns what it prints.
func git(ctx context.Context, root string, args ...string) (string, error) {
	return output(exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...))
}

// output runs a command and returns what it prints. Its errors have what the command said.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if err != nil {
		said := ""
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			said = "\n" + strings.TrimSpace(string(e.Stderr))
		}
		return "", fmt.Errorf("%s: %w%s", strings.Join(cmd.Args, " "), err, said)
	}
	return strings.TrimSpace(string(out)), nil
}
