package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/pin"
)

const (
	// maxPinnedTemplates limits the templates of a server that are compared; further ones are not
	// offered. maxPinnedResources limits the resources; further ones are offered without looking at
	// them, as is what the server lists for the first time: files come and go.
	maxPinnedTemplates, maxPinnedResources = 500, 1000
	// contentTimeout limits the reading of these lists: tools do not wait longer for them.
	contentTimeout = 10 * time.Second
	// maxContentPages limits the pages of each list.
	maxContentPages = 20
)

// readsContent reports whether resources of a server are offered, and compared.
func (u *upstream) readsContent(s *session) bool {
	return s.has.Resources != nil && u.passes["resources"]
}

// contentForms returns the forms of the server's templates and resources, and the kinds of which
// there may be more.
func (u *upstream) contentForms(ctx context.Context, s *session) (forms []pin.Form, partial []string) {
	if !u.passes["resources"] {
		return nil, []string{pin.Template, pin.Resource}
	}
	forms = append(forms, pin.Form{Key: pin.Key{Kind: pin.Content}, Fingerprint: pin.Content, Content: []byte("{}")})
	if s.has.Resources == nil {
		return forms, nil
	}
	ctx, cancel := context.WithTimeout(ctx, contentTimeout)
	defer cancel()
	templates, all, err := s.listEntries(ctx, "resources/templates/list", "resourceTemplates", maxPinnedTemplates,
		templateEntry, pin.OfTemplate)
	if err != nil {
		return nil, []string{pin.Template, pin.Resource}
	}
	if forms = append(forms, templates...); !all {
		partial = append(partial, pin.Template)
	}
	if u.spec.SharedBy != "" { // what one of them has there is not for the owner to see
		return forms, append(partial, pin.Resource)
	}
	resources, all, err := s.listEntries(ctx, "resources/list", "resources", maxPinnedResources, resourceEntry,
		pin.OfResource)
	if forms = append(forms, resources...); !all || err != nil {
		partial = append(partial, pin.Resource)
	}
	return forms, partial
}

// listEntries reads a list of the server; all means that there is nothing else. The error is that
// of the first page.
func (s *session) listEntries(ctx context.Context, method, name string, most int, entry memberType,
	of func(json.RawMessage) pin.Form) (forms []pin.Form, all bool, err error) {
	seen, size := map[pin.Key]bool{}, 0
	for cursor, page := "", 0; page < maxContentPages; page++ {
		params := s.params(nil)
		if cursor != "" {
			params["cursor"] = cursor
		}
		raw, err := s.requestResult(ctx, method, params)
		if e, ok := errors.AsType[*rpcError](err); ok && page == 0 && e.Code == codeMethodNotFound {
			return nil, true, nil
		}
		var entries []json.RawMessage
		next := ""
		if err == nil {
			entries, next, err = readPage(raw, name)
		}
		if err != nil {
			if page > 0 {
				err = nil
			}
			return forms, false, err
		}
		for _, e := range entries {
			if size += len(e); size > maxEntries {
				return forms, false, nil
			}
			e, ok := cleanEntry(e, entry)
			if !ok {
				continue
			}
			f := of(e)
			if len(f.Name) > maxURI || seen[f.Key] {
				continue
			}
			if len(forms) == most {
				return forms, false, nil
			}
			seen[f.Key] = true
			forms = append(forms, f)
		}
		if next == "" || next == cursor {
			return forms, next == "", nil
		}
		cursor = next
	}
	return forms, false, nil
}

// refreshContent compares templates and resources again, which may have changed.
func (u *upstream) refreshContent(s *session) {
	if !u.pinned() || !u.readsContent(s) || len(u.pins) == 0 {
		return
	}
	forms, partial := u.contentForms(u.ctx, s)
	if len(forms) == 0 || !u.record(u.ctx, pin.List{Forms: forms,
		Partial: append(partial, pin.Tool, pin.Server, pin.Prompt)}) {
		return
	}
	u.mu.Lock()
	c := *u.catalog
	u.mu.Unlock()
	c.tools = slices.Clone(c.tools)
	u.hold(&c)
	u.publishCatalog(&c)
}

// holdContent keeps what is known about templates and resources for their lists, which are read
// when a client asks.
func (u *upstream) holdContent(c *catalog) (held int) {
	var all []string
	for k, m := range u.pins {
		if m.Pending != "" && m.Risk == pin.Held && (k.Kind == pin.Template || k.Kind == pin.Resource) {
			all = append(all, k.Kind+" "+k.Name)
		}
	}
	slices.Sort(all)
	c.content, c.heldContent = u.pins, strings.Join(all, "\n")
	c.holdsContent = true
	return len(all)
}

// isHeld reports whether an entry of a list, as the server has it, is held back. If it is not known
// yet in this form, the lists are read again soon.
func (u *upstream) isHeld(of func(json.RawMessage) pin.Form, entry json.RawMessage) bool {
	u.mu.Lock()
	c, s := u.catalog, u.session
	u.mu.Unlock()
	if !c.holdsContent {
		return false
	}
	f := of(entry)
	m, known := c.content[f.Key]
	if f.Kind == pin.Resource && (!known || u.spec.SharedBy != "") {
		return false
	}
	if s != nil && f.Fingerprint != m.Fingerprint && f.Fingerprint != m.Pending {
		signal(s.contentSeen)
	}
	return m.Holds(f.Fingerprint)
}

// settle waits a moment for further changes of the same kind.
func (u *upstream) settle(s *session, changed chan struct{}) bool {
	if !netx.WaitUnless(u.ctx, s.done, u.times.refreshDelay) {
		return false
	}
	select {
	case <-changed:
	default:
	}
	return true
}
