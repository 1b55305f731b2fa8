/* Calls of Berkeley DB, whose methods are members of structures that only its header knows.
 *
 * Nothing here is linked with the library: `db_create` comes from the caller, all else from the
 * handle that it makes. Every function returns 0, or an error number of the system (positive) or of
 * the library (negative); DB_NOTFOUND becomes BARID_NONE. A handle is used by one thread at a time.
 */

#include <string.h>

#include <db.h>

#define BARID_NONE 1000000

typedef int (*barid_db_create)(DB **, DB_ENV *, u_int32_t);

struct barid_bdb_options {
	u_int32_t flags;      /* of DB->open */
	u_int32_t page_len;   /* of a new file; 0 otherwise */
	u_int32_t cache_len;
};

const u_int32_t barid_bdb_create_flags = DB_CREATE | DB_EXCL;
const u_int32_t barid_bdb_read_flags = DB_RDONLY | DB_NOMMAP;
const int barid_bdb_major = DB_VERSION_MAJOR;
const int barid_bdb_minor = DB_VERSION_MINOR;

static int found(int error) { return error == DB_NOTFOUND ? BARID_NONE : error; }

static void say_nothing(const DB_ENV *env, const char *prefix, const char *text)
{
	(void)env, (void)prefix, (void)text;
}

int barid_bdb_open(barid_db_create create, const char *path,
    const struct barid_bdb_options *options, DB **opened)
{
	DB *db;
	int error = create(&db, NULL, 0);

	if (error != 0)
		return error;
	db->set_errcall(db, say_nothing);
	error = db->set_cachesize(db, 0, options->cache_len, 1);
	if (error == 0 && options->page_len != 0)
		error = db->set_pagesize(db, options->page_len);
	if (error == 0)
		error = db->open(db, NULL, path, NULL, DB_BTREE, options->flags, 0600);
	if (error != 0) {
		db->close(db, DB_NOSYNC);
		return error;
	}
	*opened = db;
	return 0;
}

int barid_bdb_close(DB *db) { return db->close(db, 0); }

/* Writes what is in memory only. */
int barid_bdb_flush(DB *db) { return db->sync(db, 0); }

static DBT dbt(const void *bytes, u_int32_t len)
{
	DBT dbt;

	memset(&dbt, 0, sizeof dbt);
	dbt.data = (void *)bytes;
	dbt.size = len;
	return dbt;
}

/* The value is the library's, and stays until the handle is used again. */
int barid_bdb_get(DB *db, const void *key, u_int32_t key_len, const void **value,
    u_int32_t *value_len)
{
	DBT k = dbt(key, key_len), v = dbt(NULL, 0);
	int error = db->get(db, NULL, &k, &v, 0);

	*value = v.data;
	*value_len = v.size;
	return found(error);
}

int barid_bdb_put(DB *db, const void *key, u_int32_t key_len, const void *value,
    u_int32_t value_len)
{
	DBT k = dbt(key, key_len), v = dbt(value, value_len);

	return db->put(db, NULL, &k, &v, 0);
}

int barid_bdb_delete(DB *db, const void *key, u_int32_t key_len)
{
	DBT k = dbt(key, key_len);

	return found(db->del(db, NULL, &k, 0));
}

int barid_bdb_cursor_open(DB *db, DBC **cursor) { return db->cursor(db, NULL, cursor, 0); }

int barid_bdb_cursor_close(DBC *cursor) { return cursor->close(cursor); }

/* The next pair or, if `from` is not null, the first whose key is not less. What is found stays
 * until the cursor is used again. */
int barid_bdb_cursor_next(DBC *cursor, const void *from, u_int32_t from_len, const void **key,
    u_int32_t *key_len, const void **value, u_int32_t *value_len)
{
	DBT k = dbt(from, from_len), v = dbt(NULL, 0);
	int error = cursor->get(cursor, &k, &v, from != NULL ? DB_SET_RANGE : DB_NEXT);

	*key = k.data;
	*key_len = k.size;
	*value = v.data;
	*value_len = v.size;
	return found(error);
}
