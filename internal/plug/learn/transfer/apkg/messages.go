package apkg

import "patchbay/internal/i18n"

// Errors of a package. They follow [ErrBroken] in the text.
const (
	msgBroken       = i18n.Message("this Anki package is damaged")
	msgWhy          = i18n.Message("%v: %v")
	msgNoZIP        = i18n.Message("it is no ZIP archive, or its end is missing")
	msgInside       = i18n.Message("%s: %v")
	msgLarge        = i18n.Message("%s is larger than %d MiB")
	msgElsewhere    = i18n.Message("it wants to unpack to %q")
	msgTwice        = i18n.Message("it has two files %s")
	msgNoCollection = i18n.Message("there is no collection in it; is it a file that Anki exported?")
	msgContents     = i18n.Message("its list of contents is longer than %d MiB")
	msgNoTable      = i18n.Message("it has no table %s")
	msgStrangeTable = i18n.Message("its table %s is none")
	msgTypes        = i18n.Message("its note types: %v")
	msgDecks        = i18n.Message("its decks: %v")
	msgManyTypes    = i18n.Message("it has too many note types")
	msgProto        = i18n.Message("its protobuf cannot be read")
	msgManyMedia    = i18n.Message("it has more than %d pictures and sounds")
	msgHours        = i18n.Message("its templates and notes would take hours to show")

	msgTooMany = i18n.Message("the package has more than %d cards")
)

// Errors of a card.
const (
	msgNoNote      = i18n.Message("its note is missing in the package")
	msgNoType      = i18n.Message("its note type is missing in the package")
	msgOrder       = i18n.Message("its number is impossible")
	msgLongNote    = i18n.Message("its note is longer than 4 MiB; pictures belong into Anki's media, not into the text")
	msgHuge        = i18n.Message("its templates make more than 1 MiB of text, or work too hard for it")
	msgNoFront     = i18n.Message("it has no words on its front")
	msgMediaLarge  = i18n.Message("it is larger than %d MiB")
	msgNoFile      = i18n.Message("it is a folder or a link, not a file")
	msgManyOrphans = i18n.Message("only the first %d rows that belong to no card are kept")
	msgMediaName   = i18n.Message("its name cannot be used")
	msgNoBack      = i18n.Message("it has no words on its back")
)

// broken returns an error about the whole package.
func broken(s i18n.Message, args ...any) error { return msgWhy.Errorf(ErrBroken, s.Errorf(args...)) }
