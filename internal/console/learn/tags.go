package learn

import (
	"context"
	"net/http"
	"net/url"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	learning "patchbay/internal/plug/learn"
)

// tagsPageMost is how many tags a page lists.
const tagsPageMost = 200

// tagForm is a tag as its form has it.
type tagForm struct {
	Tag    string
	Points int
	Name   string
	// There is how many points have a tag of the new name already; 0: none do. Then the
	// two become one, if that is wanted still.
	There int
	Wrong string
	Note  string
}

// tagPath is the address of a tag.
func tagPath(tag string) string { return "/learn/tags/" + url.PathEscape(tag) }

// tags lists the tags.
func (p *pages) tags(v *page.Visit) {
	tags, err := p.Points.Store.Learn.Tags(v.Context(), who(v), v.FormValue("after"), tagsPageMost+1)
	if err != nil {
		v.Fail(err)
		return
	}
	next := ""
	if len(tags) > tagsPageMost {
		tags = tags[:tagsPageMost]
		next = "/learn/tags?" + query("after", tags[tagsPageMost-1].Tag)
	}
	v.Show(ok, tagsPage(v, tags, next))
}

// tagForm looks a tag up.
func (p *pages) tagForm(v *page.Visit) (*tagForm, error) {
	f := &tagForm{Tag: v.PathValue("tag")}
	f.Name = f.Tag
	var err error
	if f.Points, err = p.Points.Store.Learn.Tagged(v.Context(), who(v), f.Tag); err != nil {
		return nil, err
	}
	if f.Points <= 0 {
		return nil, told(learning.ErrNoTag)
	}
	return f, nil
}

// tag shows a tag, to be renamed.
func (p *pages) tag(v *page.Visit) {
	f, err := p.tagForm(v)
	if err != nil {
		v.Fail(err)
		return
	}
	if v.FormValue("saved") != "" {
		f.Note = v.Say(saySaved)
	}
	v.Show(ok, tagPage(v, f))
}

// renameTag renames a tag of all points that have it, which may take a while. That it
// becomes one with another is said first.
func (p *pages) renameTag(v *page.Visit) {
	f, err := p.tagForm(v)
	if err != nil {
		v.Fail(err)
		return
	}
	typed := v.FormValue("name")
	f.Name = typed
	again := func(status int, wrong string) {
		f.Wrong = wrong
		if v.Partial() {
			v.Show(status, tagPart(v, f))
			return
		}
		v.Show(status, tagPage(v, f))
	}
	name, err := learning.CleanTag(typed)
	if err != nil || len(tagsOf(typed)) > 1 {
		again(http.StatusUnprocessableEntity, v.Say(sayBadTag, tagMost))
		return
	}
	f.Name = name
	// Of what was asked about, and of nothing else, it is known that it is meant.
	merge := v.FormValue("merge") == name
	if f.There, err = p.Points.Store.Learn.Tagged(v.Context(), who(v), name); err != nil {
		v.Fail(err)
		return
	}
	if f.There > 0 && name != f.Tag && !merge {
		again(http.StatusConflict, "")
		return
	}
	f.There = 0
	save := func(ctx context.Context, progress func(done, total int)) error {
		return did(v, control.LearnRenameTag, control.LearnTagArgs{Tag: f.Tag, Name: name, Merge: merge}, func() error {
			_, _, err := p.Points.RenameTag(ctx, who(v), f.Tag, name, merge, progress)
			return err
		})
	}
	p.longRename(v, f, save, again)
}

// longRename renames a tag, and tells how far that is: in place if the script asks, and
// else at the end.
func (p *pages) longRename(v *page.Visit, f *tagForm, save func(context.Context, func(done, total int)) error, again func(int, string)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.Context()), saveTime)
	defer cancel()
	if !v.Partial() {
		if err := save(ctx, nil); err != nil {
			if text, status := v.Wrong(told(err)); text != "" {
				again(status, text)
			}
			return
		}
		v.To(tagPath(f.Name) + "?saved=1")
		return
	}
	v.Live(func(_ context.Context, send page.Send) error {
		report := paced(send, func(done, total int) templ.Component { return renamingPart(v, done, total) })
		if err := save(ctx, report); err != nil {
			text, _ := v.Wrong(told(err))
			return send(savedPart("bad", text))
		}
		n, err := p.Points.Store.Learn.Tagged(ctx, who(v), f.Name)
		if err != nil {
			v.Wrong(err) // it is renamed all the same
		}
		return send(renamedPart(v, &tagForm{Tag: f.Name, Points: n, Name: f.Name, Note: v.Say(saySaved)}))
	})
}
