#include "store/guarded.h"

fh_guarded_books fh_guarded;
