#pragma once

// Lock rules that a compiler checks: which lock guards a member, which one a function wants held.
// Clang's -Wthread-safety reads them (tests/tools/thread_safety_test.py); g++ does not know them.
#if defined(__clang__)
#define UROCE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define UROCE_THREAD_ATTRIBUTE(x)
#endif

// For a class that is a lock, and for a guard that holds a lock while it lives.
#define UROCE_CAPABILITY(name) UROCE_THREAD_ATTRIBUTE(capability(name))
#define UROCE_SCOPED_CAPABILITY UROCE_THREAD_ATTRIBUTE(scoped_lockable)

// For a member that is used with the lock held only, and for a pointer whose object is.
#define UROCE_GUARDED_BY(lock) UROCE_THREAD_ATTRIBUTE(guarded_by(lock))
#define UROCE_PT_GUARDED_BY(lock) UROCE_THREAD_ATTRIBUTE(pt_guarded_by(lock))

// For a function: the caller holds the lock; does not hold it; the function takes, tries, releases,
// vouches for or returns it.
#define UROCE_REQUIRES(...) UROCE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define UROCE_EXCLUDES(...) UROCE_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define UROCE_ACQUIRE(...) UROCE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define UROCE_TRY_ACQUIRE(...) UROCE_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define UROCE_RELEASE(...) UROCE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define UROCE_ASSERT_CAPABILITY(...) UROCE_THREAD_ATTRIBUTE(assert_capability(__VA_ARGS__))
#define UROCE_RETURN_CAPABILITY(lock) UROCE_THREAD_ATTRIBUTE(lock_returned(lock))

// For a function that the analysis cannot follow; say why beside it.
#define UROCE_NO_THREAD_SAFETY_ANALYSIS UROCE_THREAD_ATTRIBUTE(no_thread_safety_analysis)
