package xiaozhi

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"

	"patchbay/internal/plug/xiaozhi/remote"
	"patchbay/internal/tool"
)

// maxRepertoires is how many repertoires are shared. Boards are of some dozens of
// kinds and firmware versions; if there are more, all are forgotten, and the next
// ones are shared again.
const maxRepertoires = 256

// repertoire is what a kind of boards can do. All boards of that kind share one, or
// each would need some 20 KB for it. It must not be changed.
type repertoire struct {
	remote.Catalog
	tools []tool.Tool // our own, and the board's
}

// bare is the repertoire of a board that has told nothing.
var bare = &repertoire{tools: ownTools}

// repertoires are those that are shared.
type repertoires struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte]*repertoire
}

// of is the repertoire that was kept as JSON.
func (r *repertoires) of(text []byte) (*repertoire, error) {
	sum := sha256.Sum256(text)
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.kept[sum]; known != nil {
		return known, nil
	}
	var c remote.Catalog
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, err
	}
	fresh := &repertoire{Catalog: c, tools: withOwn(c.Tools)}
	if r.kept == nil || len(r.kept) >= maxRepertoires {
		r.kept = map[[sha256.Size]byte]*repertoire{}
	}
	r.kept[sum] = fresh
	return fresh, nil
}

// withOwn adds the tools that every board has, which go before those of a board that
// have the same names.
func withOwn(tools []tool.Tool) []tool.Tool {
	all := make([]tool.Tool, 0, len(ownTools)+len(tools))
	all = append(all, ownTools...)
	for _, t := range tools {
		if !slices.ContainsFunc(ownTools, func(o tool.Tool) bool { return o.Name == t.Name }) {
			all = append(all, t)
		}
	}
	return all
}
