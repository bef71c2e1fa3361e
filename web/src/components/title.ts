import { useEffect } from 'react';

/** `<entity> · <type> · Parley` */
export function useTitle(...parts: (string | null | undefined | false)[]) {
  const title = [...parts.filter(Boolean), 'Parley'].join(' · ');
  useEffect(() => {
    document.title = title;
  }, [title]);
}
